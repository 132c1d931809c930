"""What a test needs of the machine. Absent, the test is skipped; where MAAS_REQUIRE names it, the test fails instead.

MAAS_REQUIRE=postgres,valkey,openbao,oidc,chromium,envoy,prometheus is how CI makes sure that nothing was skipped unseen.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

from deploy.local import gateway, node, openbao, postgres, valkey
from deploy.local.browser import chromium
from deploy.local.program import Missing
from deploy.local.stack import TREE
from deploy.testbed import programs


def _oidc() -> None:
    node.node()
    if not (TREE / "node_modules/oidc-provider").is_dir():
        raise Missing("no identity provider: node_modules is not set up, run `make setup`")


def _apiserver() -> None:
    programs.require("etcd", "kube-apiserver")


def _unless(variable: str, find: Callable[[], object]) -> Callable[[], object]:
    return lambda: os.environ.get(variable) or find()


def _prometheus() -> None:
    if shutil.which("prometheus") is None:
        raise Missing("no Prometheus: the program prometheus is not on the path (Debian's package prometheus)")


FINDERS: dict[str, Callable[[], object]] = {
    "postgres": _unless("DATABASE_URL", postgres.require),
    "valkey": _unless("REDIS_URL", valkey.require),
    "openbao": _unless("VAULT_ADDR", openbao.require),
    "oidc": _oidc,
    "chromium": chromium,
    "envoy": gateway.require,
    "apiserver": _apiserver,
    "prometheus": _prometheus,
}


def require(*names: str) -> None:
    """Skips the calling test, or fails it, when one of these is not on this machine."""
    for name in names:
        try:
            FINDERS[name]()
        except Missing as missing:
            if name in os.environ.get("MAAS_REQUIRE", "").split(","):
                pytest.fail(f"MAAS_REQUIRE names {name}: {missing}")
            pytest.skip(str(missing))
