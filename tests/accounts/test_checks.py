"""A portal whose settings would open the door does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.checks import identity_settings

ROOT = Path(__file__).resolve().parents[2]


def complaints() -> list[str]:
    return [error.id or "" for error in identity_settings()]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OIDC_USE_NONCE", False), ("OIDC_USE_PKCE", False), ("OIDC_PKCE_CODE_CHALLENGE_METHOD", "plain"),
        ("OIDC_VERIFY_JWT", False), ("OIDC_VERIFY_KID", False), ("OIDC_VERIFY_SSL", False),
        ("OIDC_ALLOW_UNSECURED_JWT", True), ("ALLOW_LOGOUT_GET_METHOD", True), ("OIDC_RP_SIGN_ALGO", "HS256"),
        ("OIDC_RP_SIGN_ALGO", "none"), ("OIDC_ISSUER", "http://id.example.com"), ("PORTAL_OIDC_GROUPS_ABSENT", "x"),
        ("PORTAL_OIDC_GROUPS_FROM", "x"),
    ],
)  # fmt: skip
def test_weak_setting_is_named(settings: Any, name: str, value: object) -> None:
    assert complaints() == []
    setattr(settings, name, value)
    assert len(complaints()) == 1


@pytest.mark.parametrize("switch", ["DEMO", "DEBUG"])
@pytest.mark.parametrize(
    ("base", "hosts", "fine"),
    [
        ("http://127.0.0.1:8000", ["127.0.0.1", "localhost"], True),
        ("http://[::1]:8000", ["[::1]", "127.0.0.2:80"], True),
        ("http://portal.example.com", ["127.0.0.1"], False),
        ("http://127.0.0.1:8000", ["*"], False),
        ("http://127.0.0.1:8000", [".example.com"], False),
        ("http://127.0.0.1:8000", ["10.0.0.1"], False),
        ("http://127.0.0.1.evil.com", [], False),
    ],
)
def test_demo_and_debug_stay_on_this_machine(
    settings: Any, switch: str, base: str, hosts: list[str], fine: bool
) -> None:
    setattr(settings, switch, True)
    settings.BASE_URL, settings.ALLOWED_HOSTS = base, hosts
    assert complaints() == ([] if fine else ["accounts.E006"])


def test_refuses_to_start() -> None:
    env = {**os.environ, "MAAS_DEMO": "1", "MAAS_BASE_URL": "https://portal.example.com", "MAAS_ALLOWED_HOSTS": "*"}
    code = "import django; django.setup()"
    env["DJANGO_SETTINGS_MODULE"] = "maasportal.settings"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "MAAS_DEMO is for this machine alone" in done.stderr
