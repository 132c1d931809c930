"""The demo's identity provider, started for a test on a free port, and a browser that signs in there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
PORTAL = "http://127.0.0.1:8311"
SECRET = "the-test-client's-secret-0123456789"
PEOPLE = [
    {"username": "lina", "name": "Li Na", "email": "lina@example.test", "password": "lina-demo",
     "groups": ["/nlp/data-scientists", "/vision/viewers"]},
    {"username": "zhangwei", "name": "张伟", "email": "zw@example.test", "password": "张伟-demo",
     "groups": ["/nlp/team-admins"]},
    {"username": "newcomer", "name": "<b>Guo</b> Xin", "email": "gx@example.test", "password": "newcomer-demo",
     "groups": []},
]  # fmt: skip


def needs_node() -> None:
    """Skip, saying why, unless MAAS_REQUIRE asks for these tests."""
    missing = [] if shutil.which("node") else ["node is not installed"]
    if not (ROOT / "node_modules/oidc-provider").is_dir():
        missing.append("node_modules/oidc-provider is missing (npm ci)")
    if missing and "oidc" not in os.environ.get("MAAS_REQUIRE", "").split(","):
        pytest.skip("; ".join(missing))


class Provider:
    """A running provider. `config` may be changed and saved again; `stop()` and `start()` restart it."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        port = free_port()
        self.file = folder / "identity.json"
        self.issuer = f"http://127.0.0.1:{port}"
        client = {
            "id": "maas-portal",
            "secret": SECRET,
            "redirect_uris": [f"{PORTAL}/oidc/callback/"],
            "post_logout_redirect_uris": [f"{PORTAL}/signed-out/"],
            "backchannel_logout_uri": f"{PORTAL}/oidc/backchannel-logout/",
        }
        self.config: dict[str, Any] = {
            "port": port, "issuer": self.issuer, "client": client, "people": json.loads(json.dumps(PEOPLE)),
            "jwks_file": "keys/jwks.json", "state_file": "state.jsonl", **changes,
        }  # fmt: skip
        self.save()

    def save(self) -> None:
        self.file.write_text(json.dumps(self.config))

    def start(self) -> None:
        command = ["node", str(ROOT / "deploy/identity/provider.mjs"), "--config", str(self.file)]
        self.process = subprocess.Popen(
            command, env={**os.environ, "MAAS_DEMO": "1"}, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.stderr.read() if self.process.stderr else ""
            try:
                if httpx.get(f"{self.issuer}/healthz").status_code == 204:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the provider did not come up in 15 s")

    def stop(self, *, kill: bool = False) -> float:
        """End it and return how long that took, in seconds."""
        began = time.monotonic()
        self.process.kill() if kill else self.process.terminate()
        self.process.wait(10)
        return time.monotonic() - began


@contextmanager
def running(folder: Path, **changes: Any) -> Iterator[Provider]:
    provider = Provider(folder, **changes)
    provider.start()
    try:
        yield provider
    finally:
        provider.stop(kill=True)


def sign_in(browser: httpx.Client, address: str, username: str, password: str) -> str:
    """Walk from an authorization request to the portal: the address (with code and state) the browser is sent to."""
    response = browser.get(address)
    response = follow(browser, response)
    if response.status_code == 200:
        form = re.search(r'<form class="card" method="post" action="([^"]+)"', response.text)
        assert form, response.text
        data = {"username": username, "password": password}
        response = follow(browser, browser.post(response.url.join(form[1]), data=data))
    assert response.is_redirect, (response.status_code, response.text)
    return response.headers["location"]


def follow(browser: httpx.Client, response: httpx.Response) -> httpx.Response:
    """Follow redirects as long as they stay at the provider."""
    while response.is_redirect:
        there = response.url.join(response.headers["location"])
        if there.netloc != response.url.netloc:
            return response
        response = browser.get(there)
    return response
