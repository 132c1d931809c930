"""What is found in a cluster, the small one and the real one: with the portal's account, and with an administrator's."""

from __future__ import annotations

from pathlib import Path

import yaml

from apps.clusters.domain.checks import NEEDED
from apps.clusters.reconcile.look import Asked, look
from deploy.local.access import Access
from deploy.local.home import Home
from tests.tenants.conftest import Plane, plane

__all__ = ["plane"]


def found(plane: Plane, token: str, **others: str) -> dict[str, str]:
    findings = look(Asked(plane.server, plane.ca_pem, token, "", others))
    return {one.key: f"{one.state}:{one.code}" for one in findings.checks}


def test_the_portals_account_passes_and_an_administrator_does_not(plane: Plane, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    access = Access(home, plane.kubeconfig)
    access.grant()
    token = yaml.safe_load(access.kubeconfig.read_text())["users"][0]["user"]["token"]
    findings = look(Asked(plane.server, plane.ca_pem, token, "", {}))
    assert findings.passes, findings.checks
    assert [one.key for one in findings.checks[: len(NEEDED)]] == list(NEEDED)
    assert {one.state for one in findings.checks[: len(NEEDED)]} == {"passed"}
    assert findings.account == "system:serviceaccount:maas-portal:portal"
    assert findings.expires is not None
    again = look(Asked(plane.server, plane.ca_pem, token, findings.uid, {"other": "Other"}))
    assert (again.passes, again.uid) == (True, findings.uid)
    assert found(plane, token, **{findings.uid: "Train A"})["same"] == "failed:twice"
    assert found(plane, plane.token)["bounds"] == "failed:everything"
    assert found(plane, "eyJhbGciOiJub25lIn0.e30.x")["identity"] == "failed:refused"
    assert found(plane, "")["token"] == "failed:gone"
    assert look(Asked(plane.server, "", token, "", {})).failed == "reach"  # signed by nobody this machine knows
