"""The environment of every test: servers to lean on and settings of their own.

Loaded as a plugin (`-p tests.environment` in pyproject.toml), so that it stands before Django reads its settings.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

os.environ.setdefault("MAAS_SECRET_KEY", "the-tests-own-key-that-protects-nothing-0123456789")
os.environ.setdefault("MAAS_BASE_URL", "http://testserver")
os.environ.setdefault("MAAS_ALLOWED_HOSTS", "testserver,127.0.0.1,localhost")
os.environ.setdefault("MAAS_LOG_FORMAT", "text")
# Nothing is collected for tests; a folder that is there keeps whitenoise quiet.
os.environ.setdefault("MAAS_STATIC_ROOT", str(Path(__file__).parents[1] / "static"))
os.environ.setdefault("MAAS_STATIC_STORAGE", "django.contrib.staticfiles.storage.StaticFilesStorage")
os.environ.setdefault("OIDC_CLIENT_SECRET", "the-tests-own-client-secret-0123456789")

from deploy.local.testing import serve

serve("postgres", "valkey")
# A database of Redis for each of xdist's workers: a test that empties the cache must not empty another's queue.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    number = int(worker.removeprefix("gw")) % 16  # as many as a server has unless told
    os.environ["REDIS_URL"] = urlsplit(os.environ["REDIS_URL"])._replace(path=f"/{number}").geturl()
# The portal's own role, for tests of what it may not do; a worker of xdist inherits it.
os.environ.setdefault("APP_DATABASE_URL", os.environ["DATABASE_URL"])
# Tests create databases and tables, which only the owner of the schema may.
os.environ["DATABASE_URL"] = os.environ.get("MIGRATE_DATABASE_URL") or os.environ["DATABASE_URL"]
