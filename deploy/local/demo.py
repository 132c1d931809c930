"""The whole portal on one machine, in the foreground: `python -m deploy.local.demo`, or `make demo`.

Ctrl-C ends everything. What it makes (data, logs, passwords) is in var/demo; without that folder it starts anew.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import TextIO

from deploy.local import gateway, leftovers, people
from deploy.local.home import Home, write_private
from deploy.local.plan import Step, carry_out
from deploy.local.program import Failed, Missing, NotReady, Program, tail, wait_until
from deploy.local.servers import Server, choose, claim_ports
from deploy.local.stack import TREE, Stack, answers
from deploy.local.supervise import Supervisor

START_SECONDS = 120

SERVERS = ("postgres", "valkey", "openbao")
CLUSTER = ("apiserver", "volcano", "nodeagent")
PORTAL = ("identity", "web", "worker", "watch", "gateway", "migrations", "static", "access", "people")

ALL = frozenset((*SERVERS, *CLUSTER, *PORTAL))

STOP_ORDER = (("gateway", "web", "worker", "watch"), ("volcano", "nodeagent"), ("apiserver", "identity"))
"""Whoever asks goes before whoever answers; the servers last, all at once."""


class Demo:
    def __init__(self, home: Home, without: frozenset[str], port: int, cluster: Path | None = None) -> None:
        """`cluster`: an administrator's kubeconfig, for a cluster that runs elsewhere."""
        self.home = home
        self.cluster = cluster
        self.without = without
        self.port = port
        self.stack = Stack(home, dict(os.environ))
        self.supervisor = Supervisor(home, TREE)
        self.began = time.monotonic()
        self.commands: list[subprocess.Popen[bytes]] = []
        self.programs: dict[str, Program] = {}
        self.daemon: subprocess.Popen[bytes] | None = None

    # --- coming up --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Brings everything up. Raises Missing, Failed, PermissionError."""
        if ended := leftovers.end(self.home.root, seconds=5):
            self.say(f"ended {ended} processes that a demo before this one had left")
        if self.cluster:
            self.stack.use_cluster(self.cluster)
        servers = [
            server
            for server in choose(self.home, SERVERS, self.stack.given, durable=True)
            if server.name not in self.without
        ]
        claim_ports(self.home, servers, "apiserver", "identity", "gateway", web=self.port)
        found = {key: value for server in servers for key, value in server.environ().items()}
        everybody = people.prepare_people(self.home, TREE / "deploy/demo/people.json")
        people.prepare_provider(self.home, everybody, self.stack.url)
        gates = self.gateway(found)
        env = self.stack.portal_env(found, everybody)
        self.write_env(env)
        prepared = self.prepare(servers)
        others = [*self.stack.cluster(TREE / "deploy/demo/fleet.json"), *self.stack.portal(env), *gates]
        if "OIDC_ISSUER" not in self.stack.given:
            others.insert(0, self.stack.identity())
        self.programs = {each.name: each for each in (*prepared, *others) if each.name not in self.without}
        self.supervisor.configure(self.programs.values())
        self.daemon = self.supervisor.launch(self.stack.base_env())
        carry_out(self.steps(servers, env), self.report)

    def gateway(self, found: dict[str, str]) -> list[Program]:
        """The gateway, whose address is added to what the portal is told; none where there is no Envoy for it."""
        ours = gateway.Gateway(self.home)
        if ours.name in self.without or not gateway.wanted(self.stack.given):
            return []
        try:
            program = ours.prepare()
        except Missing as missing:
            self.say(f"{missing}. Models can be deployed; nothing leads to them.")
            return []
        found |= ours.environ()
        return [program]

    def prepare(self, servers: list[Server]) -> list[Program]:
        """Their data folders and configuration, side by side."""
        done: dict[str, Program] = {}

        def one(server: Server) -> Step:
            def run() -> str:
                done[server.name] = server.prepare()
                return "prepared"

            return Step(server.name, server.label, run)

        carry_out(map(one, servers), lambda *_: None)
        return [done[server.name] for server in servers]

    def steps(self, servers: list[Server], env: dict[str, str]) -> list[Step]:
        needs = {
            "volcano": ("apiserver",),
            "nodeagent": ("apiserver",),
            "web": ("migrations", "static", "valkey"),
            "worker": ("migrations", "valkey", "openbao"),
            "watch": ("migrations", "valkey", "openbao"),
        }
        settle: dict[str, Callable[[], None]] = {server.name: server.settle for server in servers}

        def of(program: Program) -> Step:
            def run() -> None:
                self.supervisor.start(program.name)
                self.supervisor.await_ready(program, START_SECONDS)
                settle.get(program.name, lambda: None)()

            return Step(program.name, program.label, run, needs.get(program.name, ()))

        own_env = self.stack.base_env() | env
        owner_env = own_env | {"DATABASE_URL": env["MIGRATE_DATABASE_URL"]}
        steps = [of(each) for each in self.programs.values()]
        steps += [
            Step("migrations", "Migrations", lambda: self.migrate(owner_env), ("postgres",)),
            Step("static", "Static files", lambda: self.collect(own_env)),
            Step("access", "Account in the cluster", self.stack.access.grant, ("apiserver",)),
            Step("people", "People and cluster", lambda: self.seed(own_env), ("migrations", "openbao", "access")),
        ]
        steps = [each for each in steps if each.name not in self.without]
        ready = Step("ready", "The portal", self.await_portal, tuple(each.name for each in steps))
        return [*steps, ready] if "web" not in self.without else steps

    def migrate(self, env: dict[str, str]) -> str:
        inputs = [*TREE.glob("apps/*/migrations/*.py"), TREE / "requirements.txt"]
        return self.once("migrations", inputs, env, ("migrate", "--no-input"), env["DATABASE_URL"])

    def collect(self, env: dict[str, str]) -> str:
        inputs = [*(TREE / "static").rglob("*"), TREE / "package-lock.json", TREE / "maasportal/storage.py"]
        storage = env.get("MAAS_STATIC_STORAGE", "")
        return self.once("static", inputs, env, ("collectstatic", "--no-input", "--clear", "-v0"), storage)

    def seed(self, env: dict[str, str]) -> None:
        self.manage("people", ("demo",), env)

    def once(self, name: str, inputs: Iterable[Path], env: dict[str, str], command: tuple[str, ...], key: str) -> str:
        """Runs a management command unless it has run well on exactly these inputs."""
        digest = hashlib.sha256(key.encode())
        for path in sorted(filter(Path.is_file, inputs)):
            digest.update(f"{path.relative_to(TREE)}\0".encode())
            digest.update(path.read_bytes())
        stamp = self.home.root / "run" / f"{name}.stamp"
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return "as they are"
        self.manage(name, command, env)
        stamp.write_text(digest.hexdigest())
        return "done"

    def manage(self, name: str, command: tuple[str, ...], env: dict[str, str]) -> None:
        """Runs `manage.py COMMAND`, its output into the log `name`. Raises Failed."""
        path = self.supervisor.log(name)
        with path.open("wb") as log:
            arguments = [sys.executable, "manage.py", *command]
            process = subprocess.Popen(arguments, env=env, cwd=TREE, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.commands.append(process)
        if process.wait():
            raise Failed(f"`manage.py {' '.join(command)}` failed; the end of {path}:\n{tail(path)}")

    def await_portal(self) -> str:
        try:
            wait_until(answers(f"{self.stack.url}/readyz", 200), START_SECONDS)
        except NotReady as error:
            raise Failed(f"The portal does not become ready. {error}") from error
        return "ready"

    def write_env(self, env: dict[str, str]) -> None:
        """For a shell of one's own: `set -a; . var/demo/env; python manage.py shell`."""
        write_private(self.home.root / "env", "".join(f"{key}='{value}'\n" for key, value in sorted(env.items())))

    def welcome(self) -> str:
        lines = []
        if "apiserver" in self.programs or self.cluster:
            lines.append(f"The cluster's administrator has the kubeconfig {self.stack.kubeconfig}")
        if "web" in self.programs:
            everybody = people.table(self.home.secret_path("people.json"))
            lines.append(f"Who can log in (name, password, role):\n\n{everybody}\n\nOpen {self.stack.url}")
        return "\n\n".join(lines)

    # --- being up ---------------------------------------------------------------------------------------------------

    def watch_over(self, ended: threading.Event) -> None:
        """Says what was restarted, tries again what supervisord has given up, until `ended`. Raises Failed."""
        pids = {name: state["pid"] for name, state in self.supervisor.states().items()}
        while not ended.wait(2):
            if not self.supervisor.running():
                raise Failed("supervisord has ended, and everything with it")
            for name, state in self.supervisor.states().items():
                if state["statename"] == "FATAL":
                    self.say(f"{name} keeps ending, trying again; see {self.supervisor.log(name)}")
                    self.supervisor.start(name)
                elif state["statename"] == "RUNNING" and state["pid"] != pids.get(name):
                    if name in pids:
                        self.say(f"{name} had ended and was started again (pid {state['pid']})")
                    pids[name] = state["pid"]

    # --- going down -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ends everything in order; at most ten seconds."""
        for command in self.commands:
            command.kill()
        if self.supervisor.running():
            known = self.supervisor.states().keys()
            for names in STOP_ORDER:
                self.supervisor.stop(known & set(names), seconds=4)
                if "nodeagent" in names:
                    self.end_ranks()
            self.supervisor.stop(known, seconds=3)
            self.supervisor.shutdown()
        if self.daemon:
            self.daemon.wait(timeout=5)
        leftovers.end(self.home.root, seconds=1)

    def end_ranks(self) -> None:
        """Users' processes are no children of supervisord: they outlive even the agent, so that it may be restarted."""
        leftovers.end(self.home.root, seconds=2, spare=self.daemon.pid if self.daemon else None)

    # --- words ------------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        try:
            print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)
        except OSError:
            pass  # the terminal has gone; what is to be ended is ended all the same

    def report(self, step: Step, outcome: str, seconds: float) -> None:
        self.say(f"{step.label:<20} {outcome} ({seconds:.1f} s)")


class Claim:
    """One demo a folder: the lock is the kernel's, so one whose holder was killed is free again."""

    def __init__(self, home: Home) -> None:
        self.path = home.root / "run" / "demo.json"
        self.file: TextIO | None = None

    def take(self) -> bool:
        self.file = self.path.open("a+")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.publish({})
        return True

    def publish(self, facts: dict[str, str]) -> None:
        assert self.file is not None, "take it first"
        self.file.truncate(0)
        self.file.write(json.dumps({"pid": os.getpid(), **facts}))
        self.file.flush()

    def holder(self) -> dict[str, str | int] | None:
        """What the running demo has published; None when none runs."""
        if not self.path.exists() or self.take():
            return None
        return dict(json.loads(self.path.read_text()))


def run(home: Home, claim: Claim, demo: Demo) -> int:
    """The exit code: 0 after Ctrl-C or TERM, 1 when something did not come up."""
    ended = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        ended.set()
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        demo.start()
        claim.publish({"url": demo.stack.url})
        print(f"\n{demo.welcome()}\n\nCtrl-C ends it.", flush=True)
        demo.watch_over(ended)
    except KeyboardInterrupt:
        pass
    except (Missing, Failed, OSError) as error:
        demo.say(f"this did not work out:\n{error}")
        return 1
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        demo.say("ending everything …")
        demo.stop()
        demo.say("ended")
    return 0


def stop(home: Home, claim: Claim) -> int:
    """Ends a demo that runs elsewhere, and whatever one that was killed has left."""
    holder = claim.holder()
    if holder is None:
        left = leftovers.end(home.root, seconds=5)
        print(f"ended {left} processes of a demo that was killed" if left else "no demo is running")
        return 0
    os.kill(int(holder["pid"]), signal.SIGTERM)

    def free() -> None:
        if claim.holder() is not None:
            raise NotReady

    try:
        wait_until(free, seconds=20)
    except NotReady:
        print(f"the demo (pid {holder['pid']}) does not end", file=sys.stderr)
        return 1
    print("the demo has ended")
    return 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.local.demo", description=__doc__)
    parser.add_argument("--dir", type=Path, help="var/demo by default; with --kubeconfig var/demo-given")
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster, as its administrator, not one of its own")
    parser.add_argument(
        "--port", type=int, default=int(os.environ.get("MAAS_PORT", "8000")), help="or the next free one"
    )
    parser.add_argument("--only", type=_names, help="start only these, names with commas: postgres,valkey,web")
    parser.add_argument("--without", type=_names, default=frozenset(), help="do not start these: worker,watch")
    parser.add_argument("--stop", action="store_true", help="end the demo that runs in this folder")
    options = parser.parse_args(argv)
    home = Home(options.dir or TREE / ("var/demo-given" if options.kubeconfig else "var/demo"))
    try:
        home.prepare()
    except PermissionError as error:
        print(f"{error}. Was it made by another user? Choose a folder with --dir.", file=sys.stderr)
        return 1
    claim = Claim(home)
    if options.stop:
        return stop(home, claim)
    if not claim.take():
        holder = json.loads(claim.path.read_text())
        print(f"the demo is running already: {holder.get('url', 'it is starting')} (`make demo-stop` ends it)")
        return 0
    print(
        f"MaaS Portal on this machine, in {home.root}. It runs the commands that its users submit, here, as you; it "
        "listens on loopback only.",
        flush=True,
    )
    without = options.without | (ALL - options.only if options.only else frozenset())
    if options.kubeconfig:
        without |= {"apiserver"}
    return run(home, claim, Demo(home, without, options.port, options.kubeconfig))


def _names(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if unknown := names - ALL:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(sorted(ALL))}")
    return names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
