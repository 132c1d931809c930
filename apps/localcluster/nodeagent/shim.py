"""One process beside each container: starts it, writes its log, ends it when told, keeps its exit code.

It outlives the agent. Everything it says stands in the attempt's folder, each file written whole or not at all:
`lock` (held while the shim lives), `started.json`, `exit.json`, `log`. It reads `stop.json` (when to kill) on SIGTERM,
and starts further processes in the container when asked (see `execs`).
Started as `python -m apps.localcluster.nodeagent.shim` with the order as JSON on stdin; closes stdout once the
container runs or cannot. A second shim for the same attempt finds the lock and leaves. Standard library
only, to start fast.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sys
import termios
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from apps.localcluster.nodeagent import memory, sandbox
from apps.localcluster.nodeagent.crilog import CriWriter, parse, stamp
from apps.localcluster.nodeagent.execs import Execs, Files, open_socket

GRACE = 10  # seconds, for a SIGTERM that does not come from the agent (the machine goes down)
DRAIN = 2  # seconds to wait for output after the container has ended
START_ERROR = 128


@dataclass(frozen=True)
class Order:
    """What to run. `uid` None leaves the user as it is; `view` None runs without a file system of its own; `memory` is
    the limit in bytes, 0 for none."""

    folder: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    log_bytes: int
    log_files: int
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    no_new_privileges: bool = False
    log_as_message: bool = False
    memory: int = 0
    view: sandbox.View | None = None

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Order:
        document: dict[str, Any] = json.loads(data)
        view = document["view"]
        return cls(**{**document, "view": sandbox.View.load(view) if view else None})


def write_whole(path: Path, document: dict[str, Any]) -> None:
    """Write JSON so that a reader, or a crash, sees all of it or none."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(document))
    draft.replace(path)


def now() -> str:
    return stamp(time.time_ns())


class Shim:
    """Runs one container. `deadline` is on the monotonic clock, which all processes of a machine share."""

    def __init__(self, order: Order) -> None:
        self.order, self.folder = order, Path(order.folder)
        self.log = CriWriter(self.folder / "log", order.log_bytes, order.log_files)
        self.deadline: float | None = None
        self.pid = 0
        self.pipes: dict[int, str] = {}
        self.execs: Execs | None = None
        self.look = 0.0  # when to look at the memory in use, on the monotonic clock
        self.out_of_memory = False

    def start(self) -> str:
        """Start the container; the answer is empty, or why it could not be started."""
        null = os.open("/dev/null", os.O_RDONLY)
        out, err = os.pipe(), os.pipe()  # close on exec
        self.pid, problem = fork(self.order, (null, out[1], err[1]))
        for end in (null, out[1], err[1]):
            os.close(end)
        self.pipes = {out[0]: "stdout", err[0]: "stderr"}
        if not problem:
            self.execs = Execs(open_socket(self.folder, listen=True), self.start_more)
        return problem and f"failed to start container: {problem}"

    def start_more(self, argv: list[str], files: Files, tty: bool) -> tuple[int, str]:
        """Start another process in the container; gives its pid, or why it could not be started."""
        terminal = {"TERM": "xterm", **self.order.env} if tty else self.order.env
        pid, problem = fork(replace(self.order, argv=argv, env=terminal), files, inside=self.pid, tty=tty)
        return pid, problem and f"failed to exec in container: {problem}"

    def told_to_stop(self) -> None:
        try:
            deadline = float(json.loads((self.folder / "stop.json").read_text())["deadline"])
        except (OSError, ValueError):
            deadline = time.monotonic() + GRACE
        if self.deadline is None:
            signal_group(self.pid, signal.SIGTERM)
        self.deadline = min(deadline, self.deadline or deadline)

    def run(self) -> int:
        """Copy output until the container has ended; returns its wait status."""
        wake, written = os.pipe()
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written)
        told = False

        def note(_number: int, _frame: object) -> None:
            nonlocal told
            told = True

        signal.signal(signal.SIGTERM, note)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        told = told or (self.folder / "stop.json").exists()
        while True:
            if told:
                told = False
                self.told_to_stop()
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == self.pid:
                return status
            if pid:
                if self.execs:
                    self.execs.ended(pid, status)
                continue  # otherwise an orphan of the container
            self.copy([wake, *self.pipes, *(self.execs.files() if self.execs else ())], self.patience())

    def patience(self) -> float | None:
        """Seconds until something has to be looked at again; ends a container whose time or memory is used up."""
        now, limit = time.monotonic(), self.order.memory
        left = None if self.deadline is None else self.deadline - now
        if limit and now >= self.look:
            self.look = now + memory.LOOK
            if memory.exceeds(os.getpid(), limit):
                self.out_of_memory = True
                left = 0.0
        if left is not None and left <= 0:
            signal_group(self.pid, signal.SIGKILL)
            return 0.5
        return min(left if left is not None else memory.LOOK, memory.LOOK) if limit else left

    def copy(self, files: list[int], seconds: float | None) -> bool:
        """Wait for output or a signal and log it; False if nothing came in time."""
        ready = select.select(files, [], [], seconds)[0]
        for file in ready:
            if self.execs and self.execs.take(file):
                continue
            data = os.read(file, 65536)
            if file not in self.pipes:
                continue
            if data:
                self.log.write(self.pipes[file], data)
            else:
                del self.pipes[file]
                os.close(file)
        return bool(ready)

    def finish(self) -> None:
        """End whatever the container left running, and take the rest of its output."""
        signal_group(self.pid, signal.SIGKILL)
        if self.execs:
            self.execs.end()
        end = time.monotonic() + DRAIN
        while time.monotonic() < end and (reap_orphans() or self.pipes):
            if self.pipes:
                self.copy(list(self.pipes), 0.05)
            else:
                time.sleep(0.01)
        self.log.close()


def last_words(order: Order, code: int) -> str:
    """The termination message: what the container left in its file, or if asked for the end of a failed one's log."""
    folder = Path(order.folder)
    try:
        text = (folder / "termination-log").read_bytes()[:4096]
    except FileNotFoundError:
        text = b""
    if not text and code and order.log_as_message:
        entries = [parse(line) for line in (folder / "log").read_bytes()[-8192:].split(b"\n")]
        text = b"\n".join(entry.text for entry in entries if entry)[-2048:]
    return text.decode(errors="replace")


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass


def reap_orphans() -> bool:
    """Kill children that left the container's process group; they come to us, the subreaper. False if none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    return True


def fork(order: Order, files: Files, *, inside: int = 0, tty: bool = False) -> tuple[int, str]:
    """A child that becomes what is ordered; its pid, and why it could not, if so. See `become`."""
    verdict = os.pipe()  # closes on exec
    pid = os.fork()
    if pid == 0:
        try:
            become(order, files, inside=inside, tty=tty)
        except (OSError, ValueError) as error:
            os.write(verdict[1], explain(order, error).encode())
        finally:
            os._exit(127)  # whatever happens, a child never goes on as a second shim
    os.close(verdict[1])
    with os.fdopen(verdict[0], "rb") as pipe:  # ends when exec succeeded
        return pid, pipe.read().decode()


def become(order: Order, files: Files, *, inside: int, tty: bool) -> None:
    """In the child: turn into a container's first process, or another one beside its process `inside`; with `tty` on
    the terminal that `files` are. Raises OSError and does not return otherwise."""
    os.setsid()
    parent = os.getppid()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if tty:
        fcntl.ioctl(files[0], termios.TIOCSCTTY, 0)
    if order.view:
        if inside:
            sandbox.join(inside, order.view)
        else:
            sandbox.enter(order.view)
        sandbox.drop_capabilities()
    if order.gid is not None:
        os.setgroups(order.groups)
        os.setgid(order.gid)
    if order.uid is not None:
        os.setuid(order.uid)
    if order.no_new_privileges:
        sandbox.prctl(sandbox.PR_SET_NO_NEW_PRIVS, 1)
    if order.view:
        try:
            Path(order.cwd).mkdir(parents=True, exist_ok=True)
        except OSError:
            pass  # chdir says it better
    os.chdir(order.cwd)
    sandbox.prctl(sandbox.PR_SET_PDEATHSIG, signal.SIGKILL)  # after setuid, which clears it
    if os.getppid() != parent:
        os._exit(127)
    os.umask(0o022)
    for target, source in enumerate([os.dup(file) for file in files]):  # away from the numbers they get
        os.dup2(source, target)
    os.execvpe(order.argv[0], order.argv, order.env)  # noqa: S606 - running what the pod says is the purpose


def explain(order: Order, error: OSError | ValueError) -> str:
    """The words of a container runtime for a failed start."""
    program = order.argv[0]
    if isinstance(error, FileNotFoundError) and error.filename in (order.cwd,):
        return f"chdir to cwd ({json.dumps(order.cwd)}): no such file or directory"
    if isinstance(error, FileNotFoundError) and "/" not in program:
        return f'exec: "{program}": executable file not found in $PATH'
    if isinstance(error, FileNotFoundError | PermissionError):
        return f'exec: "{program}": {(error.strerror or "").lower()}'
    return str(error)


def main() -> int:
    order = Order.decode(sys.stdin.buffer.read())
    folder = Path(order.folder)
    # Held, through this open file, for as long as the shim lives; the kernel lets go of it even after kill -9.
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    if (folder / "exit.json").exists():
        return 0
    sandbox.prctl(sandbox.PR_SET_CHILD_SUBREAPER, 1)
    # Until run() takes over, a stop waits instead of ending the shim.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    shim = Shim(order)
    began = now()
    problem = shim.start()
    if problem:
        shim.finish()
        report = {"code": START_ERROR, "reason": "StartError", "message": problem}
        write_whole(folder / "exit.json", {**report, "started": began, "ended": now()})
        return 0
    write_whole(folder / "started.json", {"shim": os.getpid(), "pid": shim.pid, "started": began})
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1)  # tells the agent to look
    status = os.waitstatus_to_exitcode(shim.run())
    shim.finish()
    code = 128 - status if status < 0 else status
    reason = "OOMKilled" if shim.out_of_memory else "Error" if code else "Completed"
    ending = {"code": code, "reason": reason, "message": last_words(order, code)}
    write_whole(folder / "exit.json", {**ending, "started": began, "ended": now()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
