"""Who may do what in a cluster: the tenants' accounts, each in its own place, and the portal's, which works in none."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import yaml

from apps.accounts.types import Actor
from apps.adapters.errors import OutsideError, Refused
from apps.adapters.kubernetes import Endpoint, KubeApi, NotInstalled, objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.audit.models import Entry
from apps.clusters import services as clusters
from apps.clusters.services.connect import connect, connect_for
from apps.clusters.services.connect import endpoint as portal_endpoint
from apps.jobs.domain import manifests
from apps.jobs.domain.phases import Phase, Wanted
from apps.jobs.models import Job
from apps.jobs.reconcile.draft import judge_draft
from apps.jobs.reconcile.job import reconcile_job
from apps.jobs.services import background
from apps.tenants import services
from apps.tenants.domain.place import ACCOUNT, ACCOUNT_ROLE, RBAC, place_steps
from apps.tenants.models import Placement
from deploy.local.access import MANIFEST
from deploy.local.program import NotReady, wait_until
from tests import factories
from tests.tenants.conftest import Plane, Scene

MANIFESTS = list(yaml.safe_load_all(MANIFEST.read_text()))
BY_PLURAL = {(kind.api.rpartition("/")[0], kind.plural): kind for kind in objects.KINDS.values()}


def rights_of(name: str) -> list[tuple[str, objects.Kind]]:
    """Verbs and kinds of a ClusterRole of the manifest."""
    (role,) = [one for one in MANIFESTS if one["kind"] == "ClusterRole" and one["metadata"]["name"] == name]
    return [
        (verb, BY_PLURAL[group, resource])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "/" not in resource and "resourceNames" not in rule
        for verb in rule["verbs"]
    ]


WORK = rights_of(ACCOUNT_ROLE)


def attempt(api: KubeApi, verb: str, kind: objects.Kind, namespace: str) -> None:
    """Ask for something that changes nothing. Raises RightMissing where it is not allowed; what else is wrong with it
    is said only to who may."""
    path, name = objects.path(kind, namespace), "attempt"
    body = {"apiVersion": kind.api, "kind": kind.name, "metadata": {"name": name, "namespace": namespace}, "spec": {}}
    calls: dict[str, Any] = {
        "get": lambda: api.get(f"{path}/{name}"),
        "list": lambda: api.list(path),
        "create": lambda: api.create(path, body, dry_run=True),
        "patch": lambda: api.apply(f"{path}/{name}", body, dry_run=True),
        "delete": lambda: api.delete(f"{path}/{name}"),
    }
    try:
        calls[verb]()
    except (RightMissing, NotInstalled):
        raise
    except Refused:
        pass


@pytest.fixture
def tenants(scene: Scene) -> tuple[Scene, Scene]:
    """Two tenants with places."""
    other = replace(scene, slug=f"{scene.slug}b")
    for one in (scene, other):
        one.ask()
        one.until(Placement.State.READY)
    return scene, other


def hand_of(scene: Scene) -> KubeApi:
    assert scene.placement
    return connect_for(scene.placement.cluster, services.account_of(scene.slug))


def test_a_tenants_account_works_in_its_own_place_and_in_no_other(tenants: tuple[Scene, Scene]) -> None:
    mine, other = tenants
    hand = hand_of(mine)
    for verb, kind in WORK:
        attempt(hand, verb, kind, mine.namespace)
        with pytest.raises(RightMissing) as refused:
            attempt(hand, verb, kind, other.namespace)
        assert (refused.value.code, refused.value.account) == (403, (mine.namespace, ACCOUNT))


BEYOND = {
    "secrets are read": ("GET", "/api/v1/namespaces/{own}/secrets"),
    "one secret is read": ("GET", "/api/v1/namespaces/{own}/secrets/x"),
    "a log of another tenant": ("GET", "/api/v1/namespaces/{other}/pods/x/log"),
    "an own token is made": ("POST", "/api/v1/namespaces/{own}/serviceaccounts/maas-portal/token"),
    "its own rights are widened": ("PATCH", f"/apis/{RBAC}/v1/namespaces/{{own}}/rolebindings/maas-portal"),
    "a right is given": ("POST", f"/apis/{RBAC}/v1/namespaces/{{own}}/rolebindings"),
    "its namespace is changed": ("PATCH", "/api/v1/namespaces/{own}"),
    "its namespace is finalized": ("PUT", "/api/v1/namespaces/{own}/finalize"),
    "its quota is changed": ("PATCH", "/api/v1/namespaces/{own}/resourcequotas/tenant"),
    "its network is opened": ("DELETE", "/apis/networking.k8s.io/v1/namespaces/{own}/networkpolicies/default-deny"),
    "its queue is changed": ("PATCH", "/apis/scheduling.volcano.sh/v1beta1/queues/{own}"),
    "a pod is entered": ("POST", "/api/v1/namespaces/{own}/pods/x/exec"),
    "nodes are listed": ("GET", "/api/v1/nodes"),
    "pods of everybody": ("GET", "/api/v1/pods"),
    "jobs of everybody are deleted": ("DELETE", "/apis/batch.volcano.sh/v1alpha1/namespaces/{other}/jobs"),
}


@pytest.fixture
def wire(plane: Plane) -> Iterator[httpx.Client]:
    """Requests as a thief of a token would send them."""
    trust = ssl.create_default_context(cadata=plane.ca_pem)
    with httpx.Client(base_url=plane.server, verify=trust, trust_env=False) as client:
        yield client


def token_of(scene: Scene, account: str = ACCOUNT) -> str:
    path = f"{scene.path(objects.SERVICE_ACCOUNT, account)}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    return str(scene.admin.create(path, request).object["status"]["token"])


def test_a_tenants_token_opens_nothing_else(tenants: tuple[Scene, Scene], wire: httpx.Client) -> None:
    mine, other = tenants
    headers = {"Authorization": f"Bearer {token_of(mine)}", "Content-Type": "application/merge-patch+json"}
    got = {}
    for what, (method, path) in BEYOND.items():
        target = path.format(own=mine.namespace, other=other.namespace)
        got[what] = wire.request(method, target, headers=headers, content="{}" if method != "GET" else None).status_code
    assert got == dict.fromkeys(BEYOND, 403)


def test_the_portals_own_account_works_nowhere(tenants: tuple[Scene, Scene]) -> None:
    mine, _other = tenants
    assert mine.placement
    own = connect(mine.placement.cluster)
    for verb, kind in WORK:
        if verb not in ("get", "list"):
            for namespace in (mine.namespace, "default", "kube-system"):
                with pytest.raises(RightMissing) as refused:
                    attempt(own, verb, kind, namespace)
                assert (refused.value.code, refused.value.account) == (403, ("maas-portal", "portal"))
    for verb in ("get", "list"):
        with pytest.raises(RightMissing):
            attempt(own, verb, objects.SECRET, mine.namespace)
    with pytest.raises(RightMissing):
        own.create(f"{mine.path(objects.SERVICE_ACCOUNT, 'runner')}/token", {"kind": "TokenRequest"})


@pytest.mark.parametrize("role", ["cluster-admin", "admin", "edit", "maas-portal"])
def test_the_portals_own_account_gives_no_role_but_one(tenants: tuple[Scene, Scene], role: str) -> None:
    mine, _other = tenants
    assert mine.placement
    own = connect(mine.placement.cluster)
    subject = {"kind": "ServiceAccount", "name": "portal", "namespace": "maas-portal"}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    body = {"apiVersion": f"{RBAC}/v1", "roleRef": reference, "subjects": [subject], "metadata": {"name": "more"}}
    here = objects.path(objects.ROLE_BINDING, mine.namespace)
    if role != "maas-portal":  # which it holds, and so may give: it is about making places
        with pytest.raises(Refused) as refused:
            own.create(here, body | {"kind": "RoleBinding"})
        assert refused.value.code == 403
    with pytest.raises(RightMissing):
        own.create(f"/apis/{RBAC}/v1/clusterrolebindings", body | {"kind": "ClusterRoleBinding"})
    with pytest.raises(RightMissing):
        own.merge_patch(f"/apis/{RBAC}/v1/clusterroles/{ACCOUNT_ROLE}", {"rules": []})


def test_the_portals_own_account_is_nobody_else(
    scene: Scene, plane: Plane, wire: httpx.Client, request: pytest.FixtureRequest
) -> None:
    bearer = {"Authorization": f"Bearer {portal_endpoint(scene.world.place.cluster).token_source()}"}
    for whom in ("system:admin", "system:serviceaccount:tenant-nlp:maas-portal"):
        answer = wire.get("/api/v1/namespaces", headers={**bearer, "Impersonate-User": whom})
        assert answer.status_code == (
            501 if "small" in request.node.name else 403
        )  # the small cluster knows no such thing
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for thing in ("users", "groups", "serviceaccounts"):
        spec = {"resourceAttributes": {"verb": "impersonate", "resource": thing}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        assert connect(scene.world.place.cluster).create(review, body).object["status"]["allowed"] is False


def step(job: Job) -> Phase:
    """One look, as the task takes it."""
    clusters.look(background.job_rows(job.pk), reconcile_job)
    job.refresh_from_db()
    return job.state


def until(job: Job, phase: Phase) -> None:
    def check() -> None:
        if step(job) is not phase:
            raise NotReady(f"{job.phase} {job.reason} {job.reason_params}")

    wait_until(check, 30)


def test_a_job_lives_by_its_tenants_account(tenants: tuple[Scene, Scene]) -> None:
    mine, _other = tenants
    assert mine.placement
    draft = factories.draft(mine.world.scientist, mine.placement.tenant)
    judge_draft(str(draft.pk))
    draft.refresh_from_db()
    assert draft.dry_run["state"] == "accepted", draft.dry_run
    job = factories.job(mine.world.scientist, mine.placement)
    until(job, Phase.WAITING)
    Job.objects.for_system().filter(pk=job.pk).update(wanted=Wanted.SUSPEND)
    until(job, Phase.SUSPENDED)
    Job.objects.for_system().filter(pk=job.pk).update(wanted=Wanted.STOP)
    until(job, Phase.STOPPED)


def test_with_every_check_of_the_portal_switched_off_the_cluster_refuses_a_stranger(
    tenants: tuple[Scene, Scene],
) -> None:
    """The row of a tenant's job says that it runs in another tenant's place."""
    mine, other = tenants
    assert mine.placement
    assert other.placement
    job = factories.job(mine.world.scientist, mine.placement)
    Job.objects.for_system().filter(pk=job.pk).update(placement=other.placement)
    assert step(job) is Phase.SUBMITTED
    assert job.reason == "waiting.account"
    victim = factories.job(mine.world.scientist, other.placement)
    until(victim, Phase.WAITING)
    hand, name = hand_of(mine), manifests.object_name(victim.pk)
    with pytest.raises(RightMissing):
        hand.delete(other.path(objects.VOLCANO_JOB, name))
    jobs = other.admin.list(objects.path(objects.VOLCANO_JOB, other.namespace))
    assert [one["metadata"]["name"] for one in jobs] == [name]


def test_a_place_made_before_tenants_had_accounts_gets_one_without_being_asked(tenants: tuple[Scene, Scene]) -> None:
    mine, _other = tenants
    assert mine.placement
    new = ("portal-account", "portal-binding")
    for one in place_steps(services.place_of(mine.placement)):
        if one.key in new:
            mine.admin.delete(objects.object_path(one.manifest))
    before = [row for row in mine.placement.steps if row["key"] not in new]
    Placement.objects.for_system().filter(pk=mine.placement.pk).update(steps=before)
    healed = mine.look()
    assert (healed.is_ready, healed.off) == (True, [])
    assert [mine.states()[key] for key in new] == ["applied", "applied"]
    assert not Entry.objects.filter(action="tenant.drift", tenant_id=mine.placement.tenant_id)
    attempt(hand_of(mine), "create", objects.VOLCANO_JOB, mine.namespace)


@pytest.mark.parametrize("key", ["portal-account", "portal-binding"])
def test_an_account_that_was_removed_is_named_and_comes_back_when_asked(tenants: tuple[Scene, Scene], key: str) -> None:
    mine, _other = tenants
    assert mine.placement
    hand = hand_of(mine)
    attempt(hand, "create", objects.VOLCANO_JOB, mine.namespace)  # it has a token, which ends with the account
    (gone,) = [one.manifest for one in place_steps(services.place_of(mine.placement)) if one.key == key]
    mine.admin.delete(objects.object_path(gone))

    def refused() -> None:
        try:
            attempt(hand, "create", objects.VOLCANO_JOB, mine.namespace)
        except RightMissing as error:
            told.append(error.account)
            return
        raise NotReady("still let in")

    told: list[tuple[str, str]] = []
    wait_until(refused, 20)  # a real API server remembers for ten seconds that a token was good
    assert told == [services.account_of(mine.slug)]
    placement = mine.look()
    assert (placement.state, mine.states()[key]) == (Placement.State.FAILED, "missing")
    services.restore(Actor.system("test"), placement=placement)
    assert mine.look().is_ready

    def allowed() -> None:
        try:
            attempt(hand, "create", objects.VOLCANO_JOB, mine.namespace)
        except OutsideError as error:
            raise NotReady(error.text) from error

    wait_until(allowed, 20)


def test_a_tenants_token_is_worth_nothing_where_the_portal_sends_its_own_commands(
    tenants: tuple[Scene, Scene], plane: Plane
) -> None:
    mine, _other = tenants
    thief = KubeApi(Endpoint(plane.server, plane.ca_pem, lambda fresh=False: token_of(mine)))
    for verb, kind in WORK:
        with pytest.raises(RightMissing):
            attempt(thief, verb, kind, "maas-portal")
