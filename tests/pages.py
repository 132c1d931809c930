"""A signed-in browser without a provider, for tests of pages."""

from __future__ import annotations

from django.test import Client
from django.utils import timezone

from apps.accounts.models import ProviderSession, User


def session_of(client: Client, user: User) -> None:
    """Make the client's session one that the provider vouched for just now."""
    client.force_login(user, backend="apps.accounts.oidc.Backend")
    now = timezone.now()
    ProviderSession.objects.create(
        session_key=client.session.session_key,
        user=user,
        iss=user.iss,
        sub=user.sub,
        refresh_token="not asked for in this test",
        checked_at=now,
        lease_until=now,
    )


def browser(user: User, **headers: str) -> Client:
    """A client signed in as this person."""
    client = Client(headers=headers)
    session_of(client, user)
    return client
