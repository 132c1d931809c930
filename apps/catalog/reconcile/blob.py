"""Taking bytes away that no version has any more."""

from __future__ import annotations

import structlog
from django.db import transaction
from django.utils import timezone

from apps.adapters.errors import Unavailable
from apps.adapters.storage import storage
from apps.catalog.models import Blob, StoredFile
from apps.catalog.services.arriving import TOKEN

log = structlog.get_logger(__name__)


def remove_blob(digest: str) -> None:
    """Remove unused bytes. From the moment they are marked until they are gone, nobody builds on them."""
    with transaction.atomic():
        blob = Blob.objects.select_for_update().filter(pk=digest).exclude(due_at=None).first()
        if blob is None:
            return
        if StoredFile.objects.filter(digest=digest).exists():
            Blob.objects.filter(pk=digest).update(due_at=None, removing=False)
            return
        Blob.objects.filter(pk=digest).update(removing=True)
    try:
        storage().remove(digest)
    except Unavailable as error:
        log.warning("storage_unavailable", error=error.text)
        Blob.objects.filter(pk=digest).update(due_at=timezone.now() + TOKEN / 60)
        return
    Blob.objects.filter(pk=digest, removing=True).delete()
