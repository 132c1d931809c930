"""Deploying: from a version and a shape to a row that the reconciler takes to the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.utils.text import slugify
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.accounts.types import Actor, Permission
from apps.adapters.broker import wake
from apps.audit import services as audit
from apps.catalog import services as catalog
from apps.quotas import services as quotas
from apps.serving.domain.engines import Engine, engine_for
from apps.serving.domain.fit import SHAPES, Shape, Verdict, fit
from apps.serving.domain.phases import Phase
from apps.serving.domain.problems import InvalidRequest, Problem, read_name, read_replicas
from apps.serving.models import Deployment, DeploymentPhase, new_id
from apps.serving.services.fitting import accelerator_of, pool_of, require_open
from apps.streams.services import hint
from apps.tenants import services as tenants

DEPLOYED = audit.action(
    "deployment.created",
    ngettext_lazy(
        "{actor} deployed {model} as {name} with {gpus} GPU",
        "{actor} deployed {model} as {name} with {gpus} GPUs",
        "gpus",
    ),
    name=_("Deploy a model"),
)


class KeyReused(Exception):
    """The same request key came with another request."""


@dataclass(frozen=True)
class Request:
    """What is to be deployed where, as it was typed. A request that is sent again with the same `key` is the same."""

    tenant_id: int
    version_id: str
    name: str
    shape: str
    replicas: int | str = 1
    key: str = ""


@audit.use_case(DEPLOYED)
def deploy(actor: Actor, *, request: Request) -> Deployment:
    """Deploy a version once, with a hold on the quota. Raises InvalidRequest with what is wrong, KeyReused."""
    actor.require(Permission.DEPLOYMENT_CREATE, request.tenant_id, target=f"tenant:{request.tenant_id}")
    if known := _sent_before(actor, request):
        return known
    name, replicas, shape = _typed(request)
    version = deployable(actor, request.version_id, request.tenant_id)
    engine = engine_of(version)
    placement = tenants.placement_of(request.tenant_id)
    if placement is None:
        raise InvalidRequest([Problem("", "no-placement")])
    require_open(placement)
    answer = fit(engine, version.facts, shape, accelerator_of(placement).bytes)
    if not answer.possible:
        code = "cannot-split" if answer.verdict is Verdict.CANNOT_SPLIT else "does-not-fit"
        raise InvalidRequest([Problem("shape", code, {"engine": engine.name})])
    deployment_id = new_id()
    deployment = Deployment(
        pk=deployment_id,
        slug=slug_of(name, deployment_id),
        tenant_id=request.tenant_id,
        owner_id=actor.user_pk,
        placement=placement,
        version=version,
        name=name,
        model=version.model.name,
        model_version=version.number,
        facts=version.facts,
        engine=engine.key,
        shape=shape.key,
        replicas=replicas,
        request_key=request.key,
    )
    deployment.save(force_insert=True)
    hold(deployment, deployment.accelerators)
    DeploymentPhase.objects.create(deployment=deployment, phase=Phase.ASKING)
    audit.record(
        DEPLOYED, actor, deployment.subject, tenant_id=deployment.tenant_id, name=name, gpus=deployment.accelerators,
        model=f"{deployment.model} v{deployment.model_version}", version=version.pk, replicas=replicas,
    )  # fmt: skip
    hint(f"tenant.{deployment.tenant_id}")
    wake("serving.reconcile_deployment", deployment.pk)
    return deployment


def hold(deployment: Deployment, amount: int) -> None:
    """Let the deployment hold so many accelerators, in the caller's transaction. Raises InvalidRequest with the numbers
    where the quota does not leave them."""
    if amount == deployment.held:
        return
    try:
        quotas.take(deployment.tenant_id, pool_of(deployment.placement), amount, deployment.subject)
    except quotas.NoRoom as none:
        numbers: dict[str, str | int | float] = {
            "more": amount - deployment.held, "left": none.left, "limit": none.limit,
        }  # fmt: skip
        raise InvalidRequest([Problem("replicas", "no-room", numbers)]) from none
    Deployment.objects.for_system().filter(pk=deployment.pk).update(held=amount)
    deployment.held = amount


def deployable(actor: Actor, version_id: str, tenant_id: int) -> catalog.ModelVersion:
    """The version, if this actor may deploy it there. Raises InvalidRequest."""
    version = catalog.version_visible(actor, version_id)
    if version is None:
        raise InvalidRequest([Problem("version", "unknown-version")])
    if version.tenant_id != tenant_id and not _is_public(version):
        raise InvalidRequest([Problem("version", "other-tenant")])
    if not version.is_ready:
        raise InvalidRequest([Problem("version", "files-coming")])
    return version


def _is_public(version: catalog.ModelVersion) -> bool:
    return version.stage == catalog.Stage.APPROVED and version.model.visibility == catalog.Visibility.PUBLIC


def slug_of(name: str, deployment_id: str) -> str:
    """Its part of the address: what Latin letters the name has, and the end of the id, which nothing else has."""
    letters = slugify(name)[:40].replace("_", "-").strip("-")
    return "-".join(part for part in (letters, deployment_id[-10:].lower()) if part)


def engine_of(version: catalog.ModelVersion) -> Engine:
    """The engine that serves a version. Raises InvalidRequest."""
    engine = engine_for(version.facts)
    if engine is None:
        raise InvalidRequest([Problem("version", "no-engine", {"format": str(version.facts.get("format") or "?")})])
    return engine


def _typed(request: Request) -> tuple[str, int, Shape]:
    """Name, replicas and shape as typed. Raises InvalidRequest with every fault."""
    problems: list[Problem] = []
    name, replicas = "", 0
    try:
        name = read_name(request.name)
    except InvalidRequest as invalid:
        problems += invalid.problems
    try:
        replicas = read_replicas(request.replicas)
    except InvalidRequest as invalid:
        problems += invalid.problems
    if request.shape not in SHAPES:
        problems.append(Problem("shape", "unknown-shape"))
    if problems:
        raise InvalidRequest(problems)
    return name, replicas, SHAPES[request.shape]


def _sent_before(actor: Actor, request: Request) -> Deployment | None:
    if not request.key:
        return None
    with connection.cursor() as cursor:  # two requests with one key take turns
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"{actor.user_pk}:{request.key}"])
    mine = Deployment.objects.for_system().filter(owner__id=actor.user_pk, request_key=request.key)
    known = mine.select_related("tenant", "placement__cluster").first()
    if known is None:
        return None
    asked = request.tenant_id, request.version_id, request.name.strip(), request.shape
    if asked != (known.tenant_id, known.version_id, known.name, known.shape):
        raise KeyReused
    return known
