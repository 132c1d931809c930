"""A file system of its own for one container, made of bind mounts. Standard library only: the shim uses it.

The container sees the system's programs read-only, its own empty /tmp, /root and so on, and its volumes at their paths;
nothing else of the machine. Needs root, or a kernel that gives ordinary users their own user namespace.
`python -m apps.localcluster.nodeagent.sandbox [--user-namespace]` tries it and says why it is refused.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 1024, 2048, 4096, 16384, 1 << 18, 1 << 21
# A mount inside a user namespace may not lose a flag it came with; statvfs names them with these values.
KEPT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME
ST_RELATIME = 4096
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
# What container runtimes leave to root by default, without CHROOT and MKNOD, which here would lead out again.
KEPT_CAPABILITIES = {
    0,
    1,
    3,
    4,
    5,
    6,
    7,
    8,
    10,
    13,
    29,
    31,
}  # CHOWN … SETPCAP, NET_BIND_SERVICE, NET_RAW, AUDIT, SETFCAP
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "nix", "gnu", "sys")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Bind:
    """What is seen at `target`. `system` marks the machine's own folders, in which nothing may be created."""

    source: str
    target: str
    readonly: bool = False
    system: bool = False


@dataclass(frozen=True)
class View:
    """The container's file system: an empty folder `root` with links and binds. `scratch` takes covering folders."""

    root: str
    scratch: str
    hostname: str
    user_namespace: bool
    links: tuple[tuple[str, str], ...] = ()
    binds: tuple[Bind, ...] = ()

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def load(cls, document: dict[str, Any]) -> View:
        binds = tuple(Bind(**bind) for bind in document["binds"])
        return cls(**{**document, "binds": binds, "links": tuple(map(tuple, document["links"]))})


def system_view(top: Path = Path("/")) -> tuple[tuple[tuple[str, str], ...], tuple[Bind, ...]]:
    """Links and read-only binds of the machine's programs (`/bin → usr/bin`, `/usr`, …)."""
    links, binds = [], []
    for name in SYSTEM:
        path = top / name
        if path.is_symlink():
            links.append((f"/{name}", str(path.readlink())))
        elif path.is_dir():
            binds.append(Bind(str(path), f"/{name}", readonly=True, system=True))
    return tuple(links), (*binds, Bind("/proc", "/proc", system=True))


def call(name: str, *args: Any) -> None:
    """A function of libc that answers 0 or fails with errno. Raises OSError."""
    if getattr(_libc, name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def prctl(option: int, value: int) -> None:
    call("prctl", option, value, 0, 0, 0)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = (source, target, kind)
    try:
        call("mount", *(a.encode() for a in arguments), ctypes.c_ulong(flags), data.encode())
    except OSError as error:
        raise OSError(error.errno, f"mount of {source} at {target}: {os.strerror(error.errno or 0)}") from error


def bind(source: str, target: str, readonly: bool = False) -> None:
    mount(source, target, "", MS_BIND | MS_REC)
    if readonly:
        seen = os.statvfs(target).f_flag
        kept = seen & KEPT_FLAGS | (MS_RELATIME if seen & ST_RELATIME else 0)
        mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


@dataclass
class Builder:
    """Puts mount points into the new root without ever writing into a folder of the machine."""

    root: str
    scratch: str
    foreign: list[str] = field(default_factory=list)
    _covers: int = 0

    def place(self, item: Bind) -> None:
        point = self.point(item.target, folder=Path(item.source).is_dir())
        bind(item.source, point, item.readonly)
        if item.system:
            self.foreign.append(point)
        else:
            # A volume below a machine's folder is the pod's own again.
            self.foreign = [f for f in self.foreign if not f.startswith(point + "/")]

    def point(self, target: str, *, folder: bool) -> str:
        """The path outside for `target` inside, created if missing."""
        current = self.root
        names = [n for n in target.split("/") if n not in ("", ".")]
        if ".." in names:
            raise ValueError(f"{target}: a mount path may not contain ..")
        for number, name in enumerate(names):
            path = f"{current}/{name}"
            if Path(path).is_symlink():
                linked = Path(path.removeprefix(self.root)).parent / Path(path).readlink()
                path = self.point(os.path.normpath(linked), folder=True)
            elif not os.path.lexists(path):
                if self._is_foreign(current):
                    self._cover(current)
                self._create(path, folder or number < len(names) - 1)
            current = path
        return current

    def _is_foreign(self, path: str) -> bool:
        return any(path == f or path.startswith(f + "/") for f in self.foreign)

    def _create(self, path: str, folder: bool) -> None:
        if folder:
            Path(path).mkdir(0o755)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))

    def _cover(self, path: str) -> None:
        """Replace a folder of the machine by one of our own that shows the same entries, each bound by itself."""
        self._covers += 1
        own = f"{self.scratch}/{self._covers}"
        Path(own).mkdir(parents=True)
        inside = []
        for entry in os.scandir(path):
            copy = f"{own}/{entry.name}"
            if entry.is_symlink():
                Path(copy).symlink_to(Path(entry.path).readlink())
            elif entry.is_dir() or entry.is_file():
                self._create(copy, entry.is_dir())
                bind(entry.path, copy, readonly=True)
                inside.append(f"{path}/{entry.name}")
        bind(own, path)
        self.foreign = [f for f in self.foreign if f != path] + inside


def enter(view: View) -> None:
    """Move this process (single-threaded) into the view. Raises OSError where the machine does not allow it."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWUSER if view.user_namespace else 0))
    if view.user_namespace:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    socket.sethostname(view.hostname)
    bind(view.root, view.root)
    for folder, mode in (("tmp", 0o1777), ("root", 0o711), ("var", 0o755), ("run", 0o755), ("home", 0o755)):
        Path(view.root, folder).mkdir()
        Path(view.root, folder).chmod(mode)
    _devices(f"{view.root}/dev")
    for path, target in view.links:
        Path(view.root + path).symlink_to(target)
    builder = Builder(view.root, view.scratch)
    for item in sorted(view.binds, key=lambda item: (not item.system, item.target.rstrip("/").count("/"))):
        builder.place(item)
    os.chroot(view.root)
    os.chdir("/")


def join(pid: int, view: View) -> None:
    """Move this process (single-threaded) to where another one is that has entered the view. Raises OSError."""
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY)
    names = ["user", "mnt", "uts"] if view.user_namespace else ["mnt", "uts"]
    for space in [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]:
        call("setns", space, 0)
    os.fchdir(root)
    os.chroot(".")


def _devices(folder: str) -> None:
    Path(folder).mkdir(0o755)
    for name in DEVICES:
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        bind(f"/dev/{name}", f"{folder}/{name}")
    for name in ("pts", "shm"):
        Path(folder, name).mkdir()
    bind("/dev/pts", f"{folder}/pts")
    mount("shm", f"{folder}/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m")
    for name, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"),
                         ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):  # fmt: skip
        Path(folder, name).symlink_to(target)


def drop_capabilities() -> None:
    """Take from root what would let it undo the view: mounts, devices, chroot, kernel modules."""
    for number in range(64):
        if number not in KEPT_CAPABILITIES:
            try:
                prctl(PR_CAPBSET_DROP, number)
            except OSError:
                return  # past the last capability this kernel knows


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("root", "scratch", "volume"):
            (Path(folder) / name).mkdir()
        links, binds = system_view()
        probe = Bind(f"{folder}/volume", "/etc/nodeagent-probe/volume")
        view = View(
            f"{folder}/root", f"{folder}/scratch", "probe", "--user-namespace" in sys.argv, links, (*binds, probe)
        )
        child = os.fork()
        if child == 0:
            try:
                enter(view)
            except OSError as error:
                sys.stderr.write(f"{error.strerror}\n")
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
