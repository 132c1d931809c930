"""The objects that make up a tenant's place, step by step, as dicts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from apps.tenants.domain.reach import Reach, allow, deny_all

Manifest = dict[str, Any]

TENANT_LABEL = "maas.portal/tenant"
MANAGER = "maas-portal"
RBAC = "rbac.authorization.k8s.io"
RUNNER = "runner"
READER = "tenant-reader"
ACCOUNT = "maas-portal"
"""What the portal itself speaks as when it does something in the tenant's name, and the binding that lets it."""
ACCOUNT_ROLE = "maas-portal-tenant"
"""The ClusterRole of `deploy/cluster/portal.yaml` that says what that is."""
PORTAL_NAMESPACE = "maas-portal"
"""Where the portal's own account is. Commands to queues are sent there: it may send none in a tenant's namespace, where
one could end a job."""

ESSENTIAL = frozenset({"namespace", "portal-account", "portal-binding", "queue"})
"""Steps without which no job can run at all; the others protect and limit."""


def namespace_of(slug: str) -> str:
    """The namespace of a tenant, in every cluster."""
    return f"tenant-{slug}"


@dataclass(frozen=True)
class Place:
    """What a place is made from. `accelerator` is the extended resource that counts GPUs there, `gpus` how many the
    tenant may have at once, `readers` the groups (as the cluster knows them) that may look with kubectl."""

    tenant: str
    namespace: str
    queue: str
    accelerator: str
    gpus: int
    reach: Reach = field(default_factory=Reach)
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One object to be there. `key` names the step in rows and words."""

    key: str
    manifest: Manifest

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def is_namespaced(self) -> bool:
        return "namespace" in self.manifest["metadata"]

    def mark(self, round_: int) -> str:
        """What we want of this object and the how-many-th time we ask for it. While the mark is the one that was last
        applied, a difference was made by somebody else; otherwise it is ours, and is applied."""
        wanted = json.dumps(self.manifest, sort_keys=True).encode()
        return f"{round_}:{hashlib.sha256(wanted).hexdigest()[:16]}"


def place_steps(place: Place) -> list[Step]:
    """Everything of a place, in the order in which it is applied."""
    builder = _Builder(place)
    return [
        Step("namespace", builder.namespace()),
        Step("quota", builder.quota()),
        Step("defaults", builder.defaults()),
        Step("network-deny", builder.policy("default-deny", deny_all())),
        Step("network-allow", builder.policy("baseline", allow(place.reach))),
        Step("account", builder.account(RUNNER)),
        Step("role", builder.role()),
        Step("binding", builder.binding()),
        Step("portal-account", builder.account(ACCOUNT)),
        Step("portal-binding", builder.portal_binding()),
        Step("queue", builder.queue()),
    ]


def queue_command(place: Place, action: str, serial: int, uid: str) -> Manifest:
    """A Volcano Command that opens or closes the queue; its name makes a repeated send the same command."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": place.queue, "uid": uid}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "name": f"{place.queue}-{action.lower()}-{serial}",
            "namespace": PORTAL_NAMESPACE,
            "labels": {TENANT_LABEL: place.tenant, "app.kubernetes.io/managed-by": MANAGER},
        },
        "action": action,
        "target": queue,
    }


class _Builder:
    def __init__(self, place: Place) -> None:
        self.place = place
        self.labels = {TENANT_LABEL: place.tenant, "app.kubernetes.io/managed-by": MANAGER}

    def _object(self, api: str, kind: str, name: str, **more: Any) -> Manifest:
        metadata = {"name": name, "namespace": self.place.namespace, "labels": self.labels}
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}

    def namespace(self) -> Manifest:
        security = {"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"}
        metadata = {"name": self.place.namespace, "labels": {**self.labels, **security}}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    def quota(self) -> Manifest:
        # Only the `requests.` form of an extended resource is enforced; `limits.` is accepted and means nothing.
        hard = {f"requests.{self.place.accelerator}": str(self.place.gpus)}
        return self._object("v1", "ResourceQuota", "tenant", spec={"hard": hard})

    def defaults(self) -> Manifest:
        container = {
            "type": "Container",
            "default": {"cpu": "2", "memory": "4Gi"},
            "defaultRequest": {"cpu": "1", "memory": "2Gi"},
            "max": {"cpu": "256", "memory": "4Ti"},
        }
        claim = {"type": "PersistentVolumeClaim", "max": {"storage": "10Ti"}}
        return self._object("v1", "LimitRange", "tenant", spec={"limits": [container, claim]})

    def policy(self, name: str, spec: dict[str, Any]) -> Manifest:
        return self._object("networking.k8s.io/v1", "NetworkPolicy", name, spec=spec)

    def account(self, name: str) -> Manifest:
        return self._object("v1", "ServiceAccount", name, automountServiceAccountToken=False)

    def role(self) -> Manifest:
        """To look, and nothing else: whoever may create pods may mount every Secret of the namespace."""
        look = ["get", "list", "watch"]
        rules = [
            {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": look},
            {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": look},
            {
                "apiGroups": [""],
                "resources": ["pods", "events", "persistentvolumeclaims", "resourcequotas", "limitranges"],
                "verbs": look,
            },
            {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        ]
        return self._object(f"{RBAC}/v1", "Role", READER, rules=rules)

    def binding(self) -> Manifest:
        groups = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in self.place.readers]
        return self._binding(READER, "Role", READER, [self._subject(RUNNER), *groups])

    def portal_binding(self) -> Manifest:
        return self._binding(ACCOUNT, "ClusterRole", ACCOUNT_ROLE, [self._subject(ACCOUNT)])

    def _binding(self, name: str, kind: str, role: str, subjects: list[Manifest]) -> Manifest:
        reference = {"apiGroup": RBAC, "kind": kind, "name": role}
        return self._object(f"{RBAC}/v1", "RoleBinding", name, roleRef=reference, subjects=subjects)

    def _subject(self, account: str) -> Manifest:
        return {"kind": "ServiceAccount", "name": account, "namespace": self.place.namespace}

    def queue(self) -> Manifest:
        """The limit always names the accelerator: a capability without it leaves GPUs unlimited."""
        limit = {self.place.accelerator: str(self.place.gpus)}
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": self.place.queue, "labels": self.labels},
            "spec": {"weight": 1, "reclaimable": False, "capability": limit},
        }
