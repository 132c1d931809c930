"""A database of the version before there were quotas, brought to this one."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

BEFORE = [("tenants", "0001_initial"), ("jobs", "0001_initial")]


def migrate(targets: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return executor.loader.project_state(targets).apps


@pytest.mark.django_db(transaction=True)
def test_limits_and_live_jobs_become_allowances_and_holds() -> None:
    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    try:
        old = migrate(BEFORE)
        tenant = old.get_model("accounts", "Tenant").objects.create(slug="old", name="Old")
        owner = old.get_model("accounts", "User").objects.create(iss="i", sub="s", name="Owner")
        cluster = old.get_model("clusters", "Cluster").objects.create(slug="a", name="A", server="http://127.0.0.1:1")
        place = old.get_model("tenants", "Placement").objects.create(
            tenant=tenant, cluster=cluster, namespace="tenant-old", queue="tenant-old", gpus=8
        )
        for number, phase in enumerate(("running", "succeeded", "suspended")):
            old.get_model("jobs", "Job").objects.create(
                pk=f"{number:026}", tenant=tenant, owner=owner, placement=place, name="n", document={}, phase=phase,
                gpus=3,
            )  # fmt: skip
        new = migrate(newest)
        allowance = new.get_model("quotas", "Allowance").objects.get()
        assert (allowance.cluster, allowance.resource, allowance.base) == ("a", "nvidia.com/gpu", 8)
        assert allowance.held == 3
        hold = new.get_model("quotas", "Hold").objects.get()
        assert (hold.subject, hold.amount) == (f"job:{0:026}", 3)
    finally:
        migrate(newest)
