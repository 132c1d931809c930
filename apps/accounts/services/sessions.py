"""Browser sessions and what the provider says about them.

A session is good while its row is there and the provider, asked every PORTAL_OIDC_CHECK_SECONDS, still honours its
refresh token. That interval is how long somebody disabled at the provider stays in; back-channel logout shortens it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from importlib import import_module
from typing import Any

import structlog
from django.conf import settings
from django.contrib import auth
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import LogoutToken, ProviderSession, User
from apps.accounts.services.people import members, revoked, roles_of_user, sync_roles
from apps.accounts.types import Actor
from apps.adapters import identity
from apps.adapters.errors import Refused, Unavailable
from apps.audit.services import Action, Result, action, record, use_case

log = structlog.get_logger(__name__)

SIGNED_IN = action("accounts.signed-in", _("{actor} signed in"), name=_("Sign in"))
SIGNED_OUT = action("accounts.signed-out", _("{actor} signed out"), name=_("Sign out"))
_SIGN_IN_REFUSED = _("A sign-in was refused: {reason}")
SIGN_IN_REFUSED = action(
    "accounts.sign-in-refused", _SIGN_IN_REFUSED, refusal=_SIGN_IN_REFUSED, name=_("A sign-in is refused")
)
SESSION_ENDED = action("accounts.session-ended", _("{actor} ended one of their sessions"), name=_("End a session"))
ENDED_BY_PROVIDER = action(
    "accounts.session-ended-by-provider",
    _("The identity provider ended a session of {target}"),
    name=_("The provider ends a session"),
)
ENDED_UNUSED = action(
    "accounts.session-unused",
    _("A session of {target} ended because it was not used"),
    name=_("An unused session ends"),
)
ENDED_SWITCHED_OFF = action(
    "accounts.session-switched-off",
    _("A session of {target} ended: the account is switched off"),
    name=_("A switched-off account's session ends"),
)

LEASE = timedelta(seconds=10)
"""Longer than a refresh may take, so that two never run at once; after a failure it is the pause before the next."""
PROVIDER, PORTAL = Actor.system("identity-provider"), Actor.system("portal")
_TROUBLE = "accounts:provider-trouble"


@dataclass(frozen=True)
class Granted:
    """What a sign-in at the provider ended in: verified claims, with the tokens they came from."""

    claims: dict[str, Any]
    tokens: identity.Tokens


class Standing(Enum):
    GOOD = "good"
    ENDED = "ended"
    UNCONFIRMED = "unconfirmed"
    """The provider has not answered for longer than the grace time. The session may be good; nobody can tell."""


def open_session(user: User, session_key: str, granted: Granted, *, agent: str, replaces: str | None) -> None:
    """Keep what the provider gave for a browser session that has just begun."""
    now = timezone.now()
    sid = granted.claims.get("sid")
    with transaction.atomic():
        ProviderSession.objects.filter(session_key__in=[session_key, replaces or ""]).delete()
        _forget(list(ProviderSession.objects.filter(user=user, used_at__lt=_idle_since(now))))
        ProviderSession.objects.create(
            session_key=session_key,
            user=user,
            iss=user.iss,
            sub=user.sub,
            sid=sid if isinstance(sid, str) and len(sid) <= 255 and sid.isprintable() else "",
            refresh_token=granted.tokens.refresh_token,
            id_token=granted.tokens.id_token,
            agent="".join(c for c in agent if c.isprintable())[:200],
            checked_at=now,
            lease_until=now,
        )
        record(SIGNED_IN, user.actor(), user.audit_id)
    cache.delete(_TROUBLE)


def refuse_sign_in(reason: str) -> None:
    """Record that the provider sent somebody whom the portal did not let in; `reason` is one of our own short codes."""
    log.warning("sign_in_refused", reason=reason)
    with transaction.atomic():
        record(SIGN_IN_REFUSED, Actor.anonymous(), "sign-in", result=Result.REFUSED, reason=reason)


def opened(session_key: str) -> ProviderSession | None:
    """What is kept of a browser session, with its person and their roles, in one query; None when it has ended."""
    return next(iter(_opened([session_key])), None)


def _opened(session_keys: Collection[str]) -> list[ProviderSession]:
    """The tokens are read only when the provider is asked: each is deciphered."""
    rows = ProviderSession.objects.filter(session_key__in=session_keys).annotate(roles=roles_of_user())
    found: list[Any] = list(rows.select_related("user").defer("refresh_token", "id_token"))
    for row in found:
        row.user.members = members(row.roles)
    return found


def confirm(row: ProviderSession | None, *, used: bool) -> Standing:
    """Whether an opened browser session is still good, asking the provider when that is due. `used`: a person did this.

    One request asks at a time; the others go on meanwhile.
    """
    if row is None:
        return Standing.ENDED
    now = timezone.now()
    if _is_over(row, now):
        _end([row], ENDED_UNUSED if row.user.is_active else ENDED_SWITCHED_OFF, by=PORTAL)
        return Standing.ENDED
    if used and now - row.used_at > timedelta(minutes=1):
        ProviderSession.objects.filter(pk=row.pk).update(used_at=now)
    if not _is_due(row, now):
        return Standing.GOOD
    free = ProviderSession.objects.filter(pk=row.pk, checked_at=row.checked_at, lease_until__lte=now)
    if free.update(lease_until=now + LEASE):
        return _ask_provider(row)
    return _within_grace(row.failing_since, now)


def _idle_since(now: datetime) -> datetime:
    """A session not used since then is over, wherever its cookie lies."""
    return now - timedelta(seconds=settings.PORTAL_IDLE_SECONDS)


def _is_over(row: ProviderSession, now: datetime) -> bool:
    return not row.user.is_active or row.used_at < _idle_since(now)


def _is_due(row: ProviderSession, now: datetime) -> bool:
    """Whether the provider is to be asked, or the session is over."""
    asked = timedelta(seconds=settings.PORTAL_OIDC_CHECK_SECONDS)
    return _is_over(row, now) or now - row.checked_at >= asked


def _ask_provider(row: ProviderSession) -> Standing:
    try:
        if not row.refresh_token:  # written under a secret key that is gone
            raise identity.InvalidGrant("no readable refresh token")
        tokens = identity.refresh(row.refresh_token)
        # Kept before anything else can fail: a provider that gives each token for one use has burnt the old one.
        if tokens.refresh_token:
            ProviderSession.objects.filter(pk=row.pk).update(refresh_token=tokens.refresh_token)
        claims = _refreshed_claims(row, tokens)
    except identity.InvalidGrant:
        _end([row], ENDED_BY_PROVIDER, by=PROVIDER)
        return Standing.ENDED
    except (Unavailable, Refused) as error:
        return _note_failure(row, error)
    now = timezone.now()
    with transaction.atomic():
        kept = {"id_token": tokens.id_token} if tokens.id_token else {}
        fresh = {"checked_at": now, "lease_until": now, "failing_since": None, **kept}
        if not ProviderSession.objects.filter(pk=row.pk).update(**fresh):
            return Standing.ENDED  # ended by a logout token while we asked
        sync_roles(row.user, claims)
    cache.delete(_TROUBLE)
    return Standing.GOOD


def _refreshed_claims(row: ProviderSession, tokens: identity.Tokens) -> dict[str, Any]:
    """Claims after a refresh. Raises InvalidGrant when they are another person's, Refused, Unavailable."""
    if tokens.id_token:
        claims = identity.verify_id_token(tokens.id_token, access_token=tokens.access_token)
    else:
        claims = identity.userinfo(tokens.access_token)
    if claims.get("sub") != row.sub:
        log.error("refreshed_as_another_person", session=row.pk)
        raise identity.InvalidGrant("the refreshed token speaks of another person")
    wanted = tokens.id_token and settings.PORTAL_OIDC_GROUPS_FROM == "userinfo"
    return with_userinfo(claims, tokens) if wanted else claims


def with_userinfo(claims: dict[str, Any], tokens: identity.Tokens) -> dict[str, Any]:
    """ID token claims completed by those of userinfo, which must have the same `sub`. Raises Refused, Unavailable."""
    about = identity.userinfo(tokens.access_token)
    if about.get("sub") != claims["sub"]:
        raise Refused("userinfo_sub")
    return {**about, **claims}


def _note_failure(row: ProviderSession, error: Unavailable | Refused) -> Standing:
    """Not the person's fault: their session stays within the grace time, and we say so loudly."""
    log.error("identity_provider_refresh_failed", error=error.text, code=error.code)
    trouble()
    now = timezone.now()
    since = row.failing_since or now
    ProviderSession.objects.filter(pk=row.pk).update(failing_since=since)
    return _within_grace(since, now)


def _within_grace(failing_since: datetime | None, now: datetime) -> Standing:
    grace = timedelta(seconds=settings.PORTAL_OIDC_GRACE_SECONDS)
    return Standing.UNCONFIRMED if failing_since and now - failing_since > grace else Standing.GOOD


def trouble() -> None:
    """Remember that the provider has just failed, for the sign-in page and the readiness answer."""
    cache.set(_TROUBLE, timezone.now(), 600)


def provider_trouble() -> datetime | None:
    """When the provider last failed, if it has not answered since."""
    at = cache.get(_TROUBLE)
    return at if isinstance(at, datetime) else None


def session_actor(session_key: str) -> Actor | None:
    """Who is behind a browser session now, for sockets to look again; None when it is over. May ask the provider."""
    row = opened(session_key) if _signed_in([session_key]) else None
    return row.user.actor() if row and confirm(row, used=False) is Standing.GOOD else None


def session_actors(session_keys: Collection[str]) -> tuple[dict[str, Actor], set[str]]:
    """`session_actor` for many sessions, in two queries: who is behind each, without those that are over; and the
    sessions of which `session_actor` must be asked, as the provider is to be asked for them or they end now."""
    now, signed_in = timezone.now(), _signed_in(session_keys)
    found = [row for row in _opened(session_keys) if row.session_key in signed_in]
    due = {row.session_key for row in found if _is_due(row, now)}
    return {row.session_key: row.user.actor() for row in found if row.session_key not in due}, due


def session_id(session_key: str) -> int | None:
    """What names a browser session in credentials made in it: useless by itself, and gone with it."""
    return ProviderSession.objects.filter(session_key=session_key).values_list("pk", flat=True).first()


def actor_of_session(row_id: int) -> Actor | None:
    """`session_actor` by `session_id`."""
    key = ProviderSession.objects.filter(pk=row_id).values_list("session_key", flat=True).first()
    return session_actor(key) if key else None


def _signed_in(session_keys: Collection[str]) -> set[str]:
    """Those of which the browser's half is there as well."""
    sessions = import_module(settings.SESSION_ENGINE).SessionStore.get_model_class().objects
    kept = sessions.filter(session_key__in=session_keys, expire_date__gt=timezone.now())
    return {row.session_key for row in kept if auth.SESSION_KEY in row.get_decoded()}


def id_token_hint(session_key: str) -> str:
    """The newest ID token of a session: the provider signs out without a question when it is shown."""
    row = ProviderSession.objects.filter(session_key=session_key).first()
    return row.id_token if row else ""


def end_session(session_key: str) -> None:
    """A person signed out."""
    for row in ProviderSession.objects.select_related("user").filter(session_key=session_key):
        _end([row], SIGNED_OUT, by=Actor(row.user.audit_id, row.user.name))


def sessions_of(actor: Actor) -> QuerySet[ProviderSession]:
    """An actor's open browser sessions, the newest first."""
    rows = ProviderSession.objects.filter(user_id=actor.user_pk, used_at__gte=_idle_since(timezone.now()))
    return rows.order_by("-pk").defer("id_token", "refresh_token")


@use_case(SESSION_ENDED)
def end_own_session(actor: Actor, row_id: int) -> None:
    """End one of the actor's other sessions. Raises ProviderSession.DoesNotExist."""
    row = ProviderSession.objects.select_related("user").get(pk=row_id, user_id=actor.user_pk)
    record(SESSION_ENDED, actor, f"session:{row.pk}")
    _forget([row])


def end_at_provider(said: identity.LogoutClaims) -> int:
    """End what a back-channel logout token names; how many sessions that was. Raises Refused for a used token."""
    rows = ProviderSession.objects.select_related("user").filter(iss=said.iss)
    rows = rows.filter(sid=said.sid) if said.sid else rows.filter(sub=said.sub)
    if said.sid and said.sub:
        rows = rows.filter(sub=said.sub)
    try:
        with transaction.atomic():
            LogoutToken.objects.filter(at__lt=timezone.now() - timedelta(days=1)).delete()
            LogoutToken.objects.create(jti=said.jti)
            ended = list(rows)
            _end(ended, ENDED_BY_PROVIDER, by=PROVIDER)
            return len(ended)
    except IntegrityError as error:
        raise Refused("jti") from error


def _end(rows: list[ProviderSession], what: Action, *, by: Actor) -> None:
    with transaction.atomic():
        for row in rows:
            record(what, by, row.user.audit_id)
        _forget(rows)


def _forget(rows: list[ProviderSession]) -> None:
    """Delete rows and their browser sessions, and tell who keeps something open for these people."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    ProviderSession.objects.filter(pk__in=[row.pk for row in rows]).delete()
    for row in rows:
        store(row.session_key).delete()
        revoked(row.user_id)
