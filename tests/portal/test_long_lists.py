"""Lists of ten thousand rows: what a page of one may ask of the database, and how long its answer may be."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.accounts.domain import Role
from tests.catalog import made
from tests.factories import World
from tests.pages import browser
from tests.prove.crowd import gather
from tests.prove.test_pages_full import LISTS, WHOLE

REST = {
    f"rest-{path.rpartition('/')[2]}": (Role.OPERATOR, path)
    for path in ("/api/v1/tenants/nlp/members", "/api/v1/models/{served_model}/versions")
}
MOST_QUERIES = {"home": 40, "home-operator": 40}
USUAL_QUERIES = 20
MOST_BYTES = 200_000


pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]


def test_pages_of_ten_thousand_rows_cost_little(world: World) -> None:
    version = made.ready(made.version(world.scientist, world.place))
    gather(world.scientist, world.place, version)
    faults = []
    for name, (who, path) in (LISTS | WHOLE | REST).items():
        client = browser(world.people[Role(who)])
        with CaptureQueriesContext(connection) as asked:
            answer = client.get(path.format(served_model=version.model_id))
        most, size = MOST_QUERIES.get(name, USUAL_QUERIES), len(answer.content)
        if answer.status_code != 200 or len(asked) > most or size > MOST_BYTES:
            faults.append(f"{name}: {answer.status_code}, {len(asked)} queries, {size} bytes")
    assert not faults, "\n".join(faults)
