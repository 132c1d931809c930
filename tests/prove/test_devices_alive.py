"""The card of a job's devices while they are read."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.prove.conftest import Portal
from tests.prove.test_pages_alive import commit_hint

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(240)]


def test_devices_appear_on_an_open_page_when_they_are_first_read(portal: Portal, desk: BrowserContext) -> None:
    job = portal.seeds.running
    page = desk.new_page()
    page.goto(f"/jobs/{job.pk}/")
    expect(page.locator("#gpus")).to_contain_text("no Prometheus is registered")
    page.evaluate("window.same = true")
    for use in (42, 57):
        row = [{"exporter": "nvidia-dcgm", "device": "3", "model": "NVIDIA A800", "memory_total": 8e10, "use": use,
                "memory": 4e10, "temperature": 61, "power": 250, "fault": 0, "fault_before": 0}]  # fmt: skip
        portal.change(
            "INSERT INTO clusters_poddevices (cluster_id, topic, pod_uid, pod_name, rank, attempt, at, devices) "
            "SELECT cluster_id, %s, 'uid-alive', 'master-0', 0, %s, now(), %s FROM tenants_placement WHERE id = %s "
            "ON CONFLICT (topic, pod_uid) DO UPDATE SET devices = excluded.devices, at = excluded.at",
            job.topic, str(job.attempt), json.dumps(row), str(job.placement_id),
        )  # fmt: skip
        commit_hint(f"devices.{job.pk}")
        expect(page.locator("#gpus")).to_contain_text(f"{use}%", timeout=10_000)
    expect(page.locator("#gpus")).to_contain_text("DCGM · last scraped")
    expect(page.locator("#tabs")).to_contain_text("61", timeout=10_000)
    assert page.evaluate("window.same")
