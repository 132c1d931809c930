"""A test database for benches that run outside pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def test_database() -> Iterator[str]:
    """Servers, settings and an empty database of the tests; its name. Models can be imported inside the block only,
    once Django is set up."""
    from tests import environment  # noqa: F401

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "maasportal.settings")
    import django
    from django.test.utils import setup_test_environment, teardown_test_environment

    django.setup()
    setup_test_environment()
    from django.db import connection

    before = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0)
    try:
        yield connection.settings_dict["NAME"]
    finally:
        connection.close()
        connection.close_pool()
        connection.creation.destroy_test_db(before, verbosity=0)
        teardown_test_environment()
