"""Which rank am I, of how many, and where is the master: read from the environment.

In this order: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT (Volcano's pytorch plugin, torchrun); VC_<TASK>_HOSTS and
VC_TASK_INDEX (Volcano's svc and env plugins); neither, and the process trains alone.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 23456


class WorldError(Exception):
    """The environment contradicts itself; trying again will not help."""


@dataclass(frozen=True)
class World:
    job: str
    rank: int = 0
    size: int = 1
    master_host: str = ""
    master_port: int = DEFAULT_PORT

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], hostname: str | None = None) -> "World":
        """Raise WorldError if a variable is missing, is not a number, or does not fit the others."""
        if "RANK" in environ or "WORLD_SIZE" in environ:
            rank, size = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
            host = environ.get("MASTER_ADDR", "")
        elif hosts := _volcano_hosts(environ):
            rank, size, host = _volcano_rank(environ, hosts, hostname or socket.gethostname()), len(hosts), hosts[0]
        else:
            rank, size, host = 0, 1, ""
        if not 0 <= rank < size:
            raise WorldError(f"RANK {rank} is not within WORLD_SIZE {size}")
        if size > 1 and not host:
            raise WorldError(f"WORLD_SIZE is {size} but MASTER_ADDR is not set")
        port = _number(environ, "MASTER_PORT", DEFAULT_PORT)
        return cls(_job_name(environ, host), rank, size, host, port)


def _number(environ: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environ.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit()):
        raise WorldError(f"{name} is {text!r}, not a number" if name in environ else f"{name} is not set")
    return int(text)


def _volcano_hosts(environ: Mapping[str, str]) -> list[str]:
    """Hosts of all tasks, those of task "master" first, else in the order of the tasks' names."""
    lists = [name for name in environ if name.startswith("VC_") and name.endswith("_HOSTS")]
    lists.sort(key=lambda name: (name != "VC_MASTER_HOSTS", name))
    return [host for name in lists for host in environ[name].split(",") if host]


def _volcano_rank(environ: Mapping[str, str], hosts: list[str], hostname: str) -> int:
    for rank, host in enumerate(hosts):
        if host.partition(".")[0] == hostname.partition(".")[0]:
            return rank
    # A container without the pod's host name: with one task its index is the rank; with more it says too little.
    if len([name for name in environ if name.startswith("VC_") and name.endswith("_HOSTS")]) > 1:
        raise WorldError(f"the job has more than one task and host name {hostname!r} is in none of VC_*_HOSTS")
    return _number(environ, "VC_TASK_INDEX")


def _job_name(environ: Mapping[str, str], master_host: str) -> str:
    """MAAS_JOB_NAME, else the Volcano job, which is the domain of its hosts: JOB-TASK-0.JOB."""
    return environ.get("MAAS_JOB_NAME") or master_host.partition(".")[2].partition(".")[0] or "charlm"


def resolve(host: str) -> str:
    """IPv4 address of a host, by the file that MAAS_HOSTS_FILE names, then by the system. Raise OSError."""
    if hosts_file := os.environ.get("MAAS_HOSTS_FILE"):
        # Read each time: it grows while the other pods get their addresses.
        for line in Path(hosts_file).read_text(encoding="utf-8").splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            if host in names and ":" not in address:
                return address
    return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
