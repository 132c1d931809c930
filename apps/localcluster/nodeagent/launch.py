"""From a pod's words to a shim's order: command, user, environment and file system of one container."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.localcluster.nodeagent import network, quantity, sandbox, volumes
from apps.localcluster.nodeagent.environment import ConfigError, Facts, environment, expand
from apps.localcluster.nodeagent.images import Image
from apps.localcluster.nodeagent.machine import Machine
from apps.localcluster.nodeagent.records import FILES
from apps.localcluster.nodeagent.shim import Order
from apps.localcluster.nodeagent.volumes import Mount

Object = dict[str, Any]
TERMINATION_LOG = "/dev/termination-log"
# One thread of arithmetic a process: a node has many cores, the machine that plays it few.
THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class User:
    """Who runs a container; None leaves the agent's own user."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Surroundings:
    """What the pod as a whole gives its containers."""

    facts: Facts
    machine: Machine
    folders: Mapping[str, Path]
    hosts: Path
    devices: Sequence[int] = ()
    log_bytes: int = 10 << 20
    log_files: int = 5


def security(pod: Object, container: Object) -> Object:
    """The container's security context over the pod's."""
    return {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}


def user(pod: Object, container: Object, machine: Machine) -> User:
    """Raises ConfigError where the pod forbids the user it would get."""
    context = security(pod, container)
    wanted = context.get("runAsUser")
    uid = wanted if machine.switches_users and wanted is not None else os.geteuid()
    if context.get("runAsNonRoot") and uid == 0:
        if wanted == 0:
            raise ConfigError("container's runAsUser breaks non-root policy")
        raise ConfigError("container has runAsNonRoot and image will run as root")
    if not machine.switches_users or (wanted is None and context.get("runAsGroup") is None and not groups(context)):
        return User()
    return User(uid, context.get("runAsGroup", 0), groups(context))


def groups(context: Object) -> tuple[int, ...]:
    extra = set(context.get("supplementalGroups") or ())
    if context.get("fsGroup") is not None:
        extra.add(context["fsGroup"])
    return tuple(sorted(extra))


def order(folder: Path, container: Object, image: Image, around: Surroundings) -> Order:
    """The order for one attempt in `folder`. Raises ConfigError."""
    pod, machine = around.facts.pod, around.machine
    who = user(pod, container, machine)
    own = environment(container, around.facts)
    seen = volumes.mounts(container, around.folders, own)
    command = [expand(part, own) for part in container.get("command") or ()] or list(image.entrypoint)
    arguments = [expand(part, own) for part in container.get("args") or ()]
    if not arguments and not container.get("command"):
        arguments = list(image.cmd)
    argv = command + arguments
    if not argv:
        raise ConfigError("no command specified")
    env = _defaults(pod, image, who, around) | own
    cwd = container.get("workingDir") or image.workdir
    own_files = _own_files(folder)
    if machine.mounts:
        last_words = container.get("terminationMessagePath") or TERMINATION_LOG
        view = _view(folder, own_files, image, (*seen, _message_file(folder, last_words)), around)
    else:
        view = None
        argv = [volumes.rewritten(part, seen) for part in argv]
        env = {name: volumes.rewritten(value, seen) for name, value in env.items()} | _paths(seen, around.hosts)
        cwd = _plain_cwd(own_files / "root", volumes.rewritten(cwd, seen), who)
        env["HOME"] = env["TMPDIR"] = cwd if own.get("HOME") is None else env["HOME"]
    return Order(
        folder=str(folder),
        argv=argv,
        env=env,
        cwd=cwd,
        log_bytes=around.log_bytes,
        log_files=around.log_files,
        uid=who.uid,
        gid=who.gid,
        groups=who.groups,
        no_new_privileges=security(pod, container).get("allowPrivilegeEscalation") is False,
        log_as_message=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        memory=_memory(container),
        view=view,
    )


def _memory(container: Object) -> int:
    """The limit in bytes, 0 for none."""
    limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    return int(quantity.parse(str(limit))) if limit else 0


def _defaults(pod: Object, image: Image, who: User, around: Surroundings) -> dict[str, str]:
    """What a container has before its pod says anything. The agent's own environment is no part of it."""
    root = (os.geteuid() if who.uid is None else who.uid) == 0
    env = {"HOME": "/root" if root else "/", "HOSTNAME": network.hostname(pod), **THREADS, **image.environment()}
    if around.devices:
        env["NVIDIA_VISIBLE_DEVICES"] = ",".join(map(str, around.devices))
    return env


def _own_files(folder: Path) -> Path:
    """A fresh place for what the container writes outside its volumes: never one that another shim may still use."""
    place = Path(tempfile.mkdtemp(prefix=FILES, dir=folder))
    place.chmod(0o711)
    for name in ("root", "scratch"):
        (place / name).mkdir()
    return place


def _plain_cwd(own: Path, wanted: str, who: User) -> str:
    """Without a file system of its own a container works in its own folder, unless it names one there is."""
    if wanted != "/" and Path(wanted).is_dir():
        return wanted
    if who.uid is not None:
        os.chown(own, who.uid, who.gid if who.gid is not None else -1)
    return str(own)


def _paths(seen: Sequence[Mount], hosts: Path) -> dict[str, str]:
    """Where things are, for containers that cannot see them in their place."""
    named = {f"MAAS_VOLUME_{re.sub('[^A-Z0-9]', '_', m.volume.upper())}": str(m.source) for m in seen}
    return {**named, "MAAS_HOSTS_FILE": str(hosts)}


def _message_file(folder: Path, target: str) -> Mount:
    """Where the container leaves its last words; the shim reads them."""
    file = folder / "termination-log"
    file.touch()
    file.chmod(0o666)
    return Mount("", file, os.path.normpath(target), readonly=False)


def _view(folder: Path, files: Path, image: Image, seen: Sequence[Mount], around: Surroundings) -> sandbox.View:
    links, system = sandbox.system_view()
    covered = [bind.target for bind in system]
    own = [path for path in image.folders() if not any(path == top or path.startswith(f"{top}/") for top in covered)]
    binds = [*system, *(sandbox.Bind(path, path, readonly=True, system=True) for path in own if Path(path).is_dir())]
    binds.append(sandbox.Bind(str(around.hosts), "/etc/hosts"))
    binds += [sandbox.Bind(str(mount.source), mount.target, mount.readonly) for mount in seen]
    return sandbox.View(
        root=str(files / "root"),
        scratch=str(files / "scratch"),
        hostname=network.hostname(around.facts.pod),
        user_namespace=around.machine.user_namespace,
        links=links,
        binds=tuple(binds),
    )
