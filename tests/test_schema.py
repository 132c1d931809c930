"""The description of the REST interface (OpenAPI) that programs are written by."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command


@pytest.fixture(scope="module")
def schema() -> Any:
    """Raises for any warning, as of two things of one name, of which one alone would be described."""
    out = StringIO()
    call_command("spectacular", fail_on_warn=True, validate=True, format="openapi-json", stdout=out)
    return json.loads(out.getvalue())


def test_each_body_is_described_as_what_it_is(schema: Any) -> None:
    parts = schema["components"]["schemas"]
    assert {"role", "label"} <= parts["Pool"]["properties"].keys()
    assert {"free", "total", "gangs"} <= parts["FleetPool"]["properties"].keys()
    assert "values" in parts["EnterSecret"]["properties"]
    assert "memory" in parts["Accelerator"]["properties"]
    assert "cluster's slug" in parts["RemoveCluster"]["properties"]["name"]["description"]
    assert "tenant's slug" in parts["RemoveTenant"]["properties"]["name"]["description"]
    assert {"$ref": "#/components/schemas/JobPhaseEnum"} in [
        parts["OneJob"]["properties"]["phase"],
        *parts["OneJob"]["properties"]["phase"].get("allOf", []),
    ]
