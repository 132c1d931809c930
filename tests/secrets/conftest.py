"""A store of our own that tests may seal, and what tests plant in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection

from apps.secrets.services import entering, store
from deploy.local import openbao
from tests.adapters.test_vault import Bao, bao
from tests.canaries import Canaries

__all__ = ["bao"]


@pytest.fixture
def vault(bao: Bao, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bao]:
    """The portal uses this store, with the demo's own policies, and a test's transaction is none of its own."""
    bao.root.sys.create_or_update_policy("portal", openbao.POLICY)
    box = bao.letterbox()
    names = {
        "VAULT_ADDR": bao.address,
        "VAULT_ROLE_ID_FILE": str(bao.role_id),
        "VAULT_SECRET_ID_FILE": str(bao.secret_id),
        "VAULT_ENTRY_ROLE_ID_FILE": str(box._role_id_file),
        "VAULT_ENTRY_SECRET_ID_FILE": str(box._secret_id_file),
    }
    for name, value in names.items():
        monkeypatch.setattr(settings, name, value)
    store.vault.cache_clear()
    entering.letterbox.cache_clear()
    connection.outside_calls_allowed = True  # type: ignore[attr-defined]
    yield bao
    del connection.outside_calls_allowed  # type: ignore[attr-defined]
    store.vault.cache_clear()
    entering.letterbox.cache_clear()


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()
