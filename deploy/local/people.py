"""The people of the demo: who they are is in deploy/demo/people.json, their passwords are this installation's own."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from deploy.local.home import Home, write_private

CLIENT_ID = "maas-portal"


def prepare_people(home: Home, source: Path) -> Path:
    """Writes everybody with a password to secrets/people.json, a password once given stays. Gives that file."""
    target = home.secret_path("people.json")
    known = {each["username"]: each for each in json.loads(target.read_text())} if target.exists() else {}
    people = [_with_password(each, known.get(each["username"], {})) for each in json.loads(source.read_text())]
    return write_private(target, json.dumps(people, ensure_ascii=False, indent=1))


def _with_password(person: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    return {"sub": person["username"], "password": before.get("password") or secrets.token_hex(4), **person}


def prepare_provider(home: Home, people: Path, portal: str) -> Path:
    """Writes the configuration of deploy/identity/provider.mjs for the portal at this address. Gives that file."""
    port = home.ports()["identity"]
    configuration = {
        "port": port,
        "issuer": issuer(home),
        "client": {
            "id": CLIENT_ID,
            "secret": home.secret("oidc-client"),
            "redirect_uris": [f"{portal}/oidc/callback/"],
            "post_logout_redirect_uris": [f"{portal}/signed-out/"],
            "backchannel_logout_uri": f"{portal}/oidc/backchannel-logout/",
        },
        "people": json.loads(people.read_text()),
        "jwks_file": str(home.secret_path("identity-keys.json")),
        "state_file": str(home.private_dir("identity") / "state"),
    }
    return write_private(home.root / "identity.json", json.dumps(configuration, ensure_ascii=False, indent=1))


def issuer(home: Home) -> str:
    return f"http://127.0.0.1:{home.ports()['identity']}"


def table(people: Path) -> str:
    """Who can log in, one line each."""
    rows = [(p["username"], p["password"], p["role"]["en"], p["name"]) for p in json.loads(people.read_text())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "   ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
    )
