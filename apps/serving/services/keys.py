"""Keys with which programs call a deployment: made, shown once, revoked."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from django.core import signing
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from apps.accounts.types import Actor, Permission
from apps.audit import services as audit
from apps.serving.domain.phases import Wanted
from apps.serving.domain.problems import InvalidRequest, Problem, read_name
from apps.serving.models import Deployment, DeploymentKey
from apps.serving.services.control import NotNow, may_control
from apps.streams.services import hint

KEY_MADE = audit.action(
    "deployment.key-made",
    _("{actor} made the key {key} ({prefix}…) for the deployment {name}, {rate} requests a minute"),
    name=_("Make a deployment's key"),
)
KEY_REVOKED = audit.action(
    "deployment.key-revoked",
    _("{actor} revoked the key {key} ({prefix}…) of the deployment {name}"),
    name=_("Revoke a deployment's key"),
)

KEY_START = "md_"
PASS_START = "mdp_"  # noqa: S105 (what a playground's pass begins with)
PASS_SECONDS = 60
SHOWN = 9
MOST_KEYS = 50
LEAST_RATE, USUAL_RATE, MOST_RATE = 1, 60, 10_000
_SALT = "apps.serving.playground"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def keys_of(deployment: Deployment) -> QuerySet[DeploymentKey]:
    """Those that open it, the newest first."""
    keys = DeploymentKey.objects.for_system().filter(deployment=deployment, revoked_at=None)
    return keys.select_related("created_by").order_by("-id")


@audit.use_case(KEY_MADE)
def make_key(actor: Actor, *, deployment: Deployment, name: str, rate: int | str) -> tuple[DeploymentKey, str]:
    """A new key and its clear text, which nobody can show again. Raises InvalidRequest, NotNow."""
    actor.require(Permission.DEPLOYMENT_USE, deployment.tenant_id, target=deployment.subject)
    here = Deployment.objects.for_system().select_for_update().get(pk=deployment.pk)
    if here.wanted == Wanted.REMOVE:
        raise NotNow(here.state)
    name, per_minute = read_name(name), _rate(rate)
    if keys_of(here).count() >= MOST_KEYS:
        raise InvalidRequest([Problem("", "too-many-keys", {"limit": MOST_KEYS})])
    clear = KEY_START + secrets.token_urlsafe(32)
    key = DeploymentKey.objects.create(
        tenant_id=here.tenant_id,
        deployment=here,
        name=name,
        prefix=clear[:SHOWN],
        digest=digest(clear),
        requests_per_minute=per_minute,
        created_by_id=actor.user_pk,
    )
    _record(KEY_MADE, actor, key, here, rate=per_minute)
    return key, clear


@audit.use_case(KEY_REVOKED)
def revoke_key(actor: Actor, *, key: DeploymentKey) -> None:
    """Stop a key, within the seconds that the gateway remembers an answer. Whoever made it may, and whoever controls
    the deployment. Once more changes nothing."""
    deployment = key.deployment
    own = str(key.created_by_id) == actor.user_pk and actor.may(Permission.DEPLOYMENT_USE, key.tenant_id)
    if not own and not may_control(actor, deployment):
        actor.require(Permission.DEPLOYMENT_CONTROL_ANY, key.tenant_id, target=deployment.subject)
    if DeploymentKey.objects.for_system().filter(pk=key.pk, revoked_at=None).update(revoked_at=Now()):
        _record(KEY_REVOKED, actor, key, deployment)


def playground_pass(actor: Actor, deployment: Deployment) -> str:
    """A credential for this person and this deployment, good for a minute: the page's own requests through the gateway.
    Raises Denied."""
    actor.require(Permission.DEPLOYMENT_USE, deployment.tenant_id, target=deployment.subject)
    return PASS_START + signing.dumps({"d": deployment.pk, "u": actor.user_pk}, salt=_SALT)


def read_pass(text: str) -> dict[str, str] | None:
    """What a pass says, None where it is none of ours or too old."""
    try:
        told = signing.loads(text.removeprefix(PASS_START), salt=_SALT, max_age=PASS_SECONDS)
    except signing.BadSignature:
        return None
    return {"deployment": str(told["d"]), "user": str(told["u"])}


def _rate(raw: int | str) -> int:
    text = str(raw).strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise InvalidRequest([Problem("rate", "not-whole", {"value": text[:40]})])
    if not LEAST_RATE <= int(text) <= MOST_RATE:
        bounds: dict[str, str | int | float] = {"value": text, "minimum": LEAST_RATE, "maximum": MOST_RATE}
        raise InvalidRequest([Problem("rate", "out-of-range", bounds)])
    return int(text)


def _record(what: audit.Action, actor: Actor, key: DeploymentKey, deployment: Deployment, **more: Any) -> None:
    audit.record(
        what, actor, deployment.subject, tenant_id=key.tenant_id, name=deployment.name, key=key.name,
        prefix=key.prefix, **more,
    )  # fmt: skip
    hint(deployment.topic)
