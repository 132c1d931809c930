"""What the database knows of secrets on loan; `store` speaks to the secrets server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.adapters.broker import wake
from apps.secrets.models import Loan, Secret

RENEW = timedelta(minutes=20)
"""A third of the life of a lent token."""


@transaction.atomic
def begin(subject: str, tenant_id: int, versions: Mapping[str, int]) -> Loan:
    """A new loan; earlier ones of the same work end."""
    told = Loan.objects.filter(subject=subject, versions=dict(versions), told=True).exists()
    end(subject)
    return Loan.objects.create(
        subject=subject, tenant_id=tenant_id, versions=dict(versions), told=told, due_at=timezone.now() + RENEW
    )


def end(subject: str) -> None:
    """The work is over, whatever ended it: a worker revokes its token. In the caller's transaction; repeatable."""
    for loan in Loan.objects.filter(subject=subject, ended_at=None):
        if Loan.objects.filter(pk=loan.pk, ended_at=None).update(ended_at=Now(), due_at=Now()):
            wake("secrets.tend", loan.pk)


def due_loans() -> list[int]:
    """Loans to renew or to revoke now."""
    return list(Loan.objects.filter(due_at__lte=Now()).order_by("due_at").values_list("pk", flat=True)[:200])


def due_secrets() -> list[int]:
    """Secrets whose values must be destroyed now."""
    rows = Secret.objects.for_system().filter(due_at__lte=Now()).order_by("due_at")
    return list(rows.values_list("pk", flat=True)[:200])
