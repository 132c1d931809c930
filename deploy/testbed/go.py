"""Go, and what it has made here: once for each version, kept in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from deploy.local.program import Failed, Missing, installed, version_of

OLDEST = (1, 26)
SWITCHES = (1, 21)
"""From this version on Go fetches another toolchain by itself, from the module proxy."""
TOOLCHAIN = "go1.26.0"
MODULES = Path(__file__).parent / "modules"

# No C compiler is needed, and nothing but what go.mod and go.sum name is taken.
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -mod=readonly", "GOWORK": "off"}


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maas-portal" / "testbed"


def require() -> tuple[Path, str]:
    """The go command, and the toolchain it is to use: its own, or one that it fetches. Raises Missing."""
    found = installed("go", folders=("/usr/local/go/bin", str(Path(sys.executable).parent)))
    versions = {binary: version_of(binary, "version") for binary in found}
    for oldest, toolchain in ((OLDEST, "local"), (SWITCHES, TOOLCHAIN)):
        for binary in found:
            if versions[binary] >= oldest:
                return binary, toolchain
    wanted = ".".join(map(str, OLDEST))
    have = f"{found[0]} is older" if found else "none is installed"
    raise Missing(f"Go {wanted} or later is needed to build the control plane, and {have} (deploy/testbed/README.md)")


def run(module: str, *arguments: str) -> str:
    """What Go prints when it is run in one of `modules/`. Raises Missing, Failed with Go's own words."""
    binary, toolchain = require()
    command = (str(binary), *arguments)
    env = {**os.environ, **ENVIRONMENT, "GOTOOLCHAIN": toolchain}
    done = subprocess.run(command, cwd=MODULES / module, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"go {' '.join(arguments[:2])} failed in modules/{module}:\n{done.stderr.strip()}")
    return done.stdout


def pinned(module: str, dependency: str) -> str:
    """The version that go.mod chooses: `pinned("kubernetes", "k8s.io/kubernetes")` is "v1.36.1"."""
    found = re.search(rf"^\s*{re.escape(dependency)} (v\S+)", (MODULES / module / "go.mod").read_text(), re.MULTILINE)
    assert found, f"modules/{module}/go.mod does not name {dependency}"
    return found.group(1)


def folder(module: str, dependency: str) -> Path:
    """Where Go keeps the source of a dependency."""
    run(module, "mod", "download", dependency)
    return Path(run(module, "list", "-m", "-f", "{{.Dir}}", dependency).strip())


def made_folder(name: str, module: str, recipe: str) -> Path:
    """Where `once` keeps what this recipe makes of these versions; it may not be there yet."""
    digest = hashlib.sha256(f"{platform.machine()}\n{recipe}\n".encode())
    for path in sorted((MODULES / module).iterdir()):
        digest.update(path.read_bytes())
    return cache() / f"{name}-{digest.hexdigest()[:12]}"


def once(target: Path, make: Callable[[Path], None]) -> Path:
    """`target`, filled by `make` if it is not there: whole or not at all, by one process while others wait."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-", ignore_cleanup_errors=True) as new:
                make(Path(new))
                Path(new).chmod(0o755)
                Path(new).rename(target)
    return target
