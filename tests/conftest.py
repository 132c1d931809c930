"""Servers, people and tenants that every test may lean on."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "maasportal.settings")
os.environ.setdefault("MAAS_SECRET_KEY", "the-tests-own-key-that-protects-nothing-0123456789")
os.environ.setdefault("MAAS_BASE_URL", "http://testserver")
os.environ.setdefault("MAAS_ALLOWED_HOSTS", "testserver,127.0.0.1,localhost")
os.environ.setdefault("MAAS_LOG_FORMAT", "text")
os.environ.setdefault("MAAS_STATIC_STORAGE", "django.contrib.staticfiles.storage.StaticFilesStorage")
os.environ.setdefault("OIDC_CLIENT_SECRET", "the-tests-own-client-secret-0123456789")

from deploy.local.testing import serve  # noqa: E402  (settings read the addresses as they are imported)

serve("postgres", "valkey")
# Tests create databases and tables, which only the owner of the schema may.
os.environ["DATABASE_URL"] = os.environ.get("MIGRATE_DATABASE_URL") or os.environ["DATABASE_URL"]

from typing import TYPE_CHECKING  # noqa: E402

import pytest  # noqa: E402

if TYPE_CHECKING:
    from tests.factories import World


@pytest.fixture
def world(db: None) -> World:
    """Two tenants with a place in one cluster, and one person of each role."""
    from tests.factories import World  # models can be imported only once Django is set up, after this file was read

    return World.make()
