"""Wanted against seen: one look at a deployment's cluster, one step, one move."""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.adapters.errors import Conflict, Refused, Unavailable
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.adapters.kubernetes.owned import ForeignObject, find
from apps.adapters.retrying import pause
from apps.catalog import services as catalog
from apps.clusters.services.connect import connect, connect_for
from apps.quotas import services as quotas
from apps.serving import moves
from apps.serving.domain import manifests
from apps.serving.domain.lifecycle import Act, Decision, Reason, Seen, Wish, decide
from apps.serving.domain.phases import Phase, Wanted
from apps.serving.domain.seen import read_seen
from apps.serving.models import Deployment
from apps.serving.reconcile.replicas import keep_replicas
from apps.serving.reconcile.routes import keep_routes
from apps.serving.services import reading
from apps.serving.services.fitting import pool_of
from apps.tenants import services as tenants

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=30)
LOADING_AGAIN = timedelta(seconds=2)
SOON = timedelta(seconds=1)
LONGEST = timedelta(seconds=5)
"""While a cluster is away, tries come at most this far apart, so that accepted work goes in soon after its return."""
REFUSED_AGAIN = timedelta(minutes=1)
NO_ACCOUNT = "asking.account"
TICKET = timedelta(hours=1)
"""How long a pod's token for the model's files is good. It is renewed at half of that: any replica may start anew."""


def reconcile_deployment(deployment: Deployment) -> timedelta | None:
    """Take one repeatable step; any worker may take it twice. Returns when to look again, None for never."""
    try:
        if deployment.state is Phase.ASKING and deployment.wanted == Wanted.RUN and not deployment.placement.is_ready:
            moves.move(deployment, Phase.ASKING, Reason("asking.placement"))
            return SOON
        step = _step(deployment)
        if deployment.failures:
            Deployment.objects.for_system().filter(pk=deployment.pk).update(failures=0)
        return step
    except moves.Stale:
        return timedelta(0)
    except Unavailable as error:
        return _wait(deployment, error, f"asking.{'secrets' if error.system == 'secrets' else 'cluster'}")
    except ForeignObject:
        if not deployment.state.is_at_rest:
            moves.move(deployment, Phase.FAILED, Reason("failed.conflict"))
        return None
    except RightMissing as error:
        return _wait(deployment, error, _lacking(deployment, error))
    except Refused as error:
        # Not the deployment's fault but ours: a kind is missing. Kept, and seen by whoever reads the log.
        log.error("cluster_refused_a_look", deployment=deployment.pk, error=error.text)
        return REFUSED_AGAIN


def _lacking(deployment: Deployment, error: RightMissing) -> str:
    """Which right is missing: the portal's own, or the tenant's account's, which its place can be given anew."""
    if error.account != tenants.account_of(deployment.tenant.slug):
        return "asking.right"
    if not deployment.failures:
        tenants.doubt(deployment.placement)
    return NO_ACCOUNT


def _step(deployment: Deployment) -> timedelta | None:
    # What is there is seen with the portal's own account; what is done is done with that of the deployment's tenant.
    eye = connect(deployment.placement.cluster)
    hand = connect_for(deployment.placement.cluster, tenants.account_of(deployment.tenant.slug))
    if deployment.wanted != Wanted.RUN:
        keep_routes(deployment)  # nobody is sent there any more, before it goes
    plan = reading.plan_of(deployment)
    seen = look(eye, plan)
    keep_replicas(eye, deployment, seen)
    wish = Wish(Wanted(deployment.wanted), deployment.replicas, manifests.mark(plan), deployment.settled)
    decision = decide(deployment.state, wish, seen)
    if decision.act is Act.APPLY:
        failed = _apply(hand, deployment, plan)
        decision = failed or decision
    elif decision.act is Act.DELETE:
        _delete(hand, plan, seen)
    if deployment.wanted == Wanted.RUN:
        _keep_ticket(hand, deployment, plan)
    _take(deployment, decision)
    if deployment.wanted == Wanted.RUN:
        keep_routes(deployment)
    _shrink(deployment, seen)
    return _again(deployment, decision, seen)


def _again(deployment: Deployment, decision: Decision, seen: Seen) -> timedelta | None:
    """The watch tells of what changes; a look of its own is for what it missed, and for what the log alone tells."""
    state = deployment.state
    if state.is_at_rest and deployment.wanted != Wanted.RUN:
        done = seen.is_gone and not deployment.held
        return (LOOK_AGAIN if deployment.route_again else None) if done else SOON
    if decision.act is not Act.NONE or (seen.is_gone and state in (Phase.STOPPING, Phase.REMOVING)):
        return SOON
    return LOADING_AGAIN if state is Phase.LOADING else LOOK_AGAIN


def look(api: KubeApi, plan: manifests.Plan) -> Seen:
    """What the cluster shows of a deployment."""
    namespace = plan.place.namespace
    found = find(api, _path(plan), (manifests.LABEL, plan.deployment_id))
    selector = f"{manifests.LABEL}={plan.deployment_id}"
    return read_seen(found, api.list(objects.path(objects.POD, namespace), label_selector=selector))


def _path(plan: manifests.Plan, kind: objects.Kind = objects.DEPLOYMENT) -> str:
    return objects.path(kind, plan.place.namespace, manifests.object_name(plan.deployment_id))


def _apply(api: KubeApi, deployment: Deployment, plan: manifests.Plan) -> Decision | None:
    """Send the objects; the same apply again changes nothing. A refusal ends it with the cluster's text."""
    try:
        if deployment.ticket_until is None and not _renew(api, deployment, plan):
            return Decision(Phase.FAILED, reason=Reason("failed.version-gone"))
        for manifest in manifests.manifests(plan):
            api.apply(objects.object_path(manifest), manifest)
    except RightMissing:
        raise
    except Refused as error:
        code = "failed.conflict" if isinstance(error, Conflict) else "failed.refused"
        return Decision(Phase.FAILED, reason=Reason(code, {"text": error.text[:500]}))
    return None


def _keep_ticket(api: KubeApi, deployment: Deployment, plan: manifests.Plan) -> None:
    """Renew it in time. A right that is missing must not keep anybody from seeing how the replicas do."""
    try:
        _renew(api, deployment, plan)
    except RightMissing as error:
        log.warning(
            "ticket_not_renewed", deployment=deployment.pk, error=error.text, reason=_lacking(deployment, error)
        )


def _renew(api: KubeApi, deployment: Deployment, plan: manifests.Plan) -> bool:
    """Give the pods a new token for the model's files while the old one still holds; False when there is no such
    version any more."""
    if deployment.ticket_until and timezone.now() < deployment.ticket_until - TICKET / 2:
        return True
    if deployment.version_id is None:
        return False
    try:
        token = catalog.open_transfer(deployment.version_id, subject=deployment.subject, lifetime=TICKET)
    except catalog.NotReady:
        return False
    secret = manifests.ticket(plan, {"token": token, "url": settings.PODS_URL})
    api.apply(objects.object_path(secret), secret)
    until = timezone.now() + TICKET
    Deployment.objects.for_system().filter(pk=deployment.pk).update(ticket_until=until)
    deployment.ticket_until = until
    return True


def _delete(api: KubeApi, plan: manifests.Plan, seen: Seen) -> None:
    """Take its objects away, those that replicas need last; its pods go with the Deployment."""
    api.delete(_path(plan), uid=seen.uid)
    api.delete(_path(plan, objects.SERVICE))
    api.delete(objects.path(objects.SECRET, plan.place.namespace, manifests.ticket_name(plan.deployment_id)))


def _take(deployment: Deployment, decision: Decision) -> None:
    """Make the move a decision asks for; with the end of everything the hold ends in the same transaction."""
    reason = decision.reason
    if decision.phase is Phase.STOPPED and deployment.state is not Phase.STOPPED:
        reason = Reason("stopped.by", {"name": deployment.wanted_by})
    elif decision.phase.is_at_rest and decision.phase is deployment.state:
        return  # at rest: what was said of it stays
    with transaction.atomic():
        moves.move(deployment, decision.phase, reason)
        if decision.phase in (Phase.STOPPED, Phase.REMOVED):
            _release(deployment)


def _release(deployment: Deployment) -> None:
    quotas.release(deployment.subject)
    catalog.close_transfers(deployment.subject)
    Deployment.objects.for_system().filter(pk=deployment.pk).update(held=0, ticket_until=None)
    deployment.held, deployment.ticket_until = 0, None


def _shrink(deployment: Deployment, seen: Seen) -> None:
    """Give back what is no longer needed once the replicas that had it are gone."""
    if deployment.state is Phase.FAILED and deployment.held and seen.is_gone:
        with transaction.atomic():
            Deployment.objects.for_system().select_for_update().get(pk=deployment.pk)
            _release(deployment)
    if deployment.state is not Phase.READY or deployment.held <= deployment.accelerators:
        return
    with transaction.atomic():
        here = Deployment.objects.for_system().select_for_update().get(pk=deployment.pk)
        if here.wanted != Wanted.RUN or here.replicas != deployment.replicas:
            return  # somebody asked for more meanwhile
        quotas.take(here.tenant_id, pool_of(deployment.placement), here.accelerators, here.subject)
        Deployment.objects.for_system().filter(pk=here.pk).update(held=here.accelerators)
    deployment.held = deployment.accelerators


def _wait(deployment: Deployment, error: Unavailable | RightMissing, code: str) -> timedelta:
    """Keep the deployment, say what it waits for, and try again: soon at first, at most LONGEST apart."""
    failures = deployment.failures + 1
    Deployment.objects.for_system().filter(pk=deployment.pk).update(failures=failures)
    if error.text and _is_told(deployment, code):
        moves.move(deployment, deployment.state, Reason(code))
    log.warning("cluster_unavailable", deployment=deployment.pk, error=error.text, failures=failures)
    return pause(error, failures, LONGEST)


def _is_told(deployment: Deployment, code: str) -> bool:
    """Whether people are told what it waits for. One that is ready, and is to stay so, has nothing to wait for."""
    if deployment.state is Phase.ASKING:
        return True
    serves = deployment.state is Phase.READY and deployment.wanted == Wanted.RUN
    return code == NO_ACCOUNT and not serves and not deployment.state.is_at_rest
