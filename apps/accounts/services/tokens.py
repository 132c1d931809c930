"""API tokens: made by a person for their scripts, shown once, kept as a hash."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from apps.accounts.models import ApiToken, User
from apps.accounts.services.people import members, roles_of_user
from apps.accounts.types import Actor, Permission
from apps.audit.services import action, record, use_case

TOKEN_CREATED = action("accounts.token-created", _("{actor} made the API token “{name}”"), name=_("Make an API token"))
TOKEN_REVOKED = action(
    "accounts.token-revoked", _("{actor} revoked the API token “{name}”"), name=_("Revoke an API token")
)

LONGEST_DAYS = 365
_MARK = "mp_"


def _digest(clear: str) -> str:
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(clear.encode()).hexdigest()


@use_case(TOKEN_CREATED)
def create_token(actor: Actor, *, name: str, days: int, read_only: bool) -> str:
    """Make a token and return it in clear, for the only time. Raises Denied; ValueError for a bad name or life."""
    actor.require(Permission.TOKEN_MANAGE_OWN, target=actor.id)
    if not 1 <= days <= LONGEST_DAYS or not name or len(name) > 80 or not name.isprintable():
        raise ValueError("A token has a name of 1 to 80 characters and lives for 1 to 365 days.")
    clear = _MARK + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user_id=actor.user_pk,
        name=name,
        prefix=clear[:10],
        digest=_digest(clear),
        read_only=read_only,
        expires_at=timezone.now() + timedelta(days=days),
    )
    record(TOKEN_CREATED, actor, f"token:{token.pk}", name=name, days=days, read_only=read_only)
    return clear


@use_case(TOKEN_REVOKED)
def revoke_token(actor: Actor, token_id: int) -> None:
    """End one of the actor's own tokens, now. Raises Denied, ApiToken.DoesNotExist."""
    actor.require(Permission.TOKEN_MANAGE_OWN, target=f"token:{token_id}")
    token = ApiToken.objects.select_for_update().get(pk=token_id, user_id=actor.user_pk)
    if token.revoked_at is None:
        ApiToken.objects.filter(pk=token_id).update(revoked_at=timezone.now())
        record(TOKEN_REVOKED, actor, f"token:{token_id}", name=token.name)


def tokens_of(actor: Actor, named: str = "") -> QuerySet[ApiToken]:
    """An actor's own tokens, newest first, those that ended within 30 days among them."""
    recent = timezone.now() - timedelta(days=30)
    own = ApiToken.objects.filter(user_id=actor.user_pk, expires_at__gt=recent).exclude(revoked_at__lt=recent)
    return own.filter(name__icontains=named) if named else own


def ending_tokens(actor: Actor, until: datetime) -> QuerySet[ApiToken]:
    """An actor's own tokens that scripts have used and that end by then, the first to end first."""
    good = ApiToken.objects.filter(user_id=actor.user_pk, revoked_at=None, expires_at__gt=timezone.now())
    return good.filter(expires_at__lt=until, last_used_at__isnull=False).order_by("expires_at")


def token_user(clear: str) -> tuple[User, ApiToken] | None:
    """The person behind a token with their roles, in one query, or None when it is not (or no longer) good.

    A person whom the provider has not confirmed for PORTAL_TOKEN_CONFIRM_DAYS is out, tokens and all: nobody tells us
    when somebody without an open session is disabled.
    """
    if not clear.startswith(_MARK) or len(clear) > 100 or not clear.isascii():
        return None
    now = timezone.now()
    token: Any = (
        ApiToken.objects.select_related("user")
        .filter(digest=_digest(clear), revoked_at=None, expires_at__gt=now, user__is_active=True)
        .filter(user__confirmed_at__gt=now - timedelta(days=settings.PORTAL_TOKEN_CONFIRM_DAYS))
        .annotate(roles=roles_of_user())
        .first()
    )
    if token is None:
        return None
    unused = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(minutes=1))
    if token.last_used_at is None or token.last_used_at < now - timedelta(minutes=1):
        ApiToken.objects.filter(unused, pk=token.pk).update(last_used_at=now)
    token.user.members = members(token.roles)
    return token.user, token
