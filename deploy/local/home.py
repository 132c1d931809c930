"""A folder that holds one installation's state: data, logs, ports, secrets.

Ports are chosen once and remembered; secrets are random and readable by their owner alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import secrets
import socket
import tempfile
from pathlib import Path

FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the range from which outgoing connections take theirs, so that a remembered port is free again next time."""

UNIX_SOCKET_PATH_MAX = 100


class Home:
    """One such folder. Nothing in it is created before it is asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def prepare(self) -> None:
        """Creates the folder. Others may pass through (PostgreSQL runs under another account as root), not list it.

        Raises PermissionError when it belongs to somebody else.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in ("secrets", "log", "run"):
            self.private_dir(name)

    def private_dir(self, name: str) -> Path:
        path = self.root / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        return path

    # --- secrets ----------------------------------------------------------------------------------------------------

    def secret_path(self, name: str) -> Path:
        return self.root / "secrets" / name

    def secret(self, name: str) -> str:
        """The secret called `name`; a new random one the first time."""
        path = self.secret_path(name)
        if not path.exists():
            self.write_secret(name, secrets.token_hex(24))
        return path.read_text().strip()

    def write_secret(self, name: str, value: str | bytes) -> Path:
        return write_private(self.secret_path(name), value)

    # --- ports ------------------------------------------------------------------------------------------------------

    def claim_ports(self, *names: str, **wanted: int) -> dict[str, int]:
        """Ports on 127.0.0.1, one a name: the remembered one if it is free, else another, remembered from now on.

        `wanted` names a first choice; the next free port above it is taken where it is not free.
        Call it only while none of the servers runs: a port in use counts as somebody else's.
        """
        ports = self.ports()
        held: list[socket.socket] = []
        try:
            for name in (*names, *wanted):
                first = wanted.get(name)
                candidates = [ports[name]] if name in ports else []
                candidates += range(first, first + 200) if first else random.sample(range(FIRST_PORT, LAST_PORT), 200)
                ports[name] = _hold_first_free(candidates, held)
        finally:
            for each in held:
                each.close()
        write_private(self.root / "ports.json", json.dumps(ports, indent=1))
        return ports

    def ports(self) -> dict[str, int]:
        path = self.root / "ports.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def socket_path(self, name: str) -> Path:
        """Where a Unix socket goes: in here, or in the temporary folder where the path would be too long for one."""
        path = self.root / "run" / name
        if len(os.fsencode(path)) <= UNIX_SOCKET_PATH_MAX:
            return path
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        directory = Path(tempfile.gettempdir()) / f"maas-portal-{os.geteuid()}-{digest}"
        directory.mkdir(mode=0o700, exist_ok=True)
        if directory.stat().st_uid != os.geteuid():
            raise PermissionError(f"{directory} belongs to somebody else")
        return directory / name


def write_private(path: Path, value: str | bytes) -> Path:
    """Writes a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(value.encode() if isinstance(value, str) else value)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
    return path


def _hold_first_free(candidates: list[int], held: list[socket.socket]) -> int:
    for port in candidates:
        listener = socket.socket()
        # As servers do: a port whose last connections still linger in TIME_WAIT counts as free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(1)
        except OSError:
            listener.close()
            continue
        held.append(listener)
        return port
    raise OSError(f"no free port on 127.0.0.1 between {min(candidates)} and {max(candidates)}")
