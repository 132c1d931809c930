"""What people do with a deployment: scale it, stop it, start it again, remove it."""

from __future__ import annotations

from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.serving.domain.phases import Phase, Wanted
from apps.serving.domain.problems import InvalidRequest, Problem, read_replicas
from apps.serving.models import Deployment, DeploymentKey
from apps.serving.services.deploy import hold
from apps.serving.services.fitting import require_open
from apps.streams.services import hint

SCALED = audit.action(
    "deployment.scaled",
    ngettext_lazy(
        "{actor} scaled {name} from {before} to {after} replica",
        "{actor} scaled {name} from {before} to {after} replicas",
        "after",
    ),
    name=_("Scale a deployment"),
)
STOPPED = audit.action("deployment.stopped", _("{actor} stopped the deployment {name}"), name=_("Stop a deployment"))
STARTED = audit.action(
    "deployment.started",
    ngettext_lazy(
        "{actor} started the deployment {name} again with {replicas} replica",
        "{actor} started the deployment {name} again with {replicas} replicas",
        "replicas",
    ),
    name=_("Start a deployment again"),
)
REMOVED = audit.action("deployment.removed", _("{actor} removed the deployment {name}"), name=_("Remove a deployment"))


class NotNow(Exception):
    """The deployment is in a phase in which this cannot be done; `phase` says which."""

    def __init__(self, phase: Phase) -> None:
        super().__init__(phase)
        self.phase = phase


def may_control(actor: Actor, deployment: Deployment) -> bool:
    """Whether this person may scale, stop and remove it: their own, or any as team admin or operator."""
    own = str(deployment.owner_id) == actor.user_pk
    mine = own and actor.may(Permission.DEPLOYMENT_CONTROL_OWN, deployment.tenant_id)
    return mine or actor.may(Permission.DEPLOYMENT_CONTROL_ANY, deployment.tenant_id)


@audit.use_case(SCALED)
def scale(actor: Actor, *, deployment: Deployment, replicas: int | str) -> None:
    """Run so many replicas; 0 stops it, and of a stopped one any other number starts it. The hold grows here and
    shrinks once the replicas are gone. Raises InvalidRequest with the numbers where the quota has no room, or with the
    reason why nothing more may begin in the cluster; NotNow."""
    here = _locked(actor, deployment)
    count = read_replicas(replicas, minimum=0)
    if here.wanted == Wanted.REMOVE or (here.state.is_at_rest and here.wanted == Wanted.STOP and count == 0):
        raise NotNow(here.state)
    if count == 0:
        _want(actor, here, Wanted.STOP, STOPPED)
        return
    if here.wanted == Wanted.STOP:
        _start(actor, here, count)
        return
    if count == here.replicas:
        return
    if count > here.replicas:
        require_open(here.placement)
    if count * here.size.accelerators > here.held:
        hold(here, count * here.size.accelerators)
    before, here.replicas = here.replicas, count
    Deployment.objects.for_system().filter(pk=here.pk).update(replicas=count, due_at=Now())
    audit.record(SCALED, actor, here.subject, tenant_id=here.tenant_id, name=here.name, before=before, after=count)
    _look(here)


@audit.use_case(STOPPED)
def stop(actor: Actor, *, deployment: Deployment) -> None:
    """Take it off its nodes; keys, name and history stay. A second stop changes nothing; raises NotNow when it is
    being removed or has failed."""
    here = _locked(actor, deployment)
    if here.wanted == Wanted.STOP and here.state is not Phase.FAILED:
        return
    if here.wanted != Wanted.RUN:
        raise NotNow(here.state)
    _want(actor, here, Wanted.STOP, STOPPED)


@audit.use_case(STARTED)
def start(actor: Actor, *, deployment: Deployment) -> None:
    """Bring a stopped or failed one back with as many replicas as before. A second start changes nothing; raises
    InvalidRequest (quota, version gone), NotNow."""
    here = _locked(actor, deployment)
    if here.wanted == Wanted.RUN:
        return
    if here.wanted == Wanted.REMOVE:
        raise NotNow(here.state)
    _start(actor, here, here.replicas)


@audit.use_case(REMOVED)
def remove(actor: Actor, *, deployment: Deployment, typed: str) -> None:
    """Take it away for good, its keys at once. `typed` has to be its name; a second time changes nothing. Raises
    InvalidRequest."""
    here = _locked(actor, deployment)
    if here.wanted == Wanted.REMOVE:
        return
    if typed.strip() != here.name:
        raise InvalidRequest([Problem("typed", "name-differs", {"name": here.name})])
    DeploymentKey.objects.for_system().filter(deployment=here, revoked_at=None).update(revoked_at=Now())
    _want(actor, here, Wanted.REMOVE, REMOVED)


def require_control(actor: Actor, deployment: Deployment) -> None:
    """Raises Denied."""
    if not may_control(actor, deployment):
        own = str(deployment.owner_id) == actor.user_pk
        missing = Permission.DEPLOYMENT_CONTROL_OWN if own else Permission.DEPLOYMENT_CONTROL_ANY
        actor.require(missing, deployment.tenant_id, target=deployment.subject)


def _locked(actor: Actor, deployment: Deployment) -> Deployment:
    """The row as it is now, for the rest of the transaction. Raises Denied."""
    require_control(actor, deployment)
    rows = Deployment.objects.for_system().select_for_update(of=("self",)).select_related("placement__cluster")
    return rows.get(pk=deployment.pk)


def _start(actor: Actor, here: Deployment, replicas: int) -> None:
    if here.version_id is None:
        raise InvalidRequest([Problem("version", "version-gone")])
    require_open(here.placement)
    needed = replicas * here.size.accelerators
    hold(here, max(here.held, needed))
    here.replicas = replicas
    values = {"wanted": Wanted.RUN, "wanted_by": actor.name, "replicas": replicas, "ended_at": None, "settled": 0}
    Deployment.objects.for_system().filter(pk=here.pk).update(**values, due_at=Now())
    audit.record(STARTED, actor, here.subject, tenant_id=here.tenant_id, name=here.name, replicas=replicas)
    _look(here)


def _want(actor: Actor, here: Deployment, wanted: Wanted, what: audit.Action) -> None:
    Deployment.objects.for_system().filter(pk=here.pk).update(wanted=wanted, wanted_by=actor.name, due_at=Now())
    audit.record(what, actor, here.subject, tenant_id=here.tenant_id, name=here.name)
    _look(here)


def _look(here: Deployment) -> None:
    hint(here.topic)
    hint(f"tenant.{here.tenant_id}")
    wake("serving.reconcile_deployment", here.pk)
