"""The demo's runner, with servers and identity provider only: what it says, what it heals, that it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from deploy.local import leftovers, memory
from deploy.local.home import Home
from deploy.local.plan import Step, carry_out
from deploy.local.program import Failed, NotReady, Program, installed, wait_until
from deploy.local.stack import MARK, TREE
from deploy.local.supervise import Supervisor
from deploy.local.testing import RunningDemo, clean_env, demo
from tests.needs import require

SUBSET = ("--only", "postgres,valkey,openbao,identity,gateway")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    require("postgres", "valkey", "openbao", "oidc", "envoy")
    with demo(tmp_path_factory.mktemp("demo"), *SUBSET) as found:
        yield found


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.local.demo", "--dir", str(root), *arguments]
    return subprocess.run(command, cwd=TREE, env=clean_env(), capture_output=True, text=True, timeout=60)


def test_what_is_killed_comes_back_as_it_was(running: RunningDemo) -> None:
    supervisor = Supervisor(running.home, TREE)
    for name in ("postgres", "valkey", "openbao", "identity", "gateway"):
        before = running.kill(name)

        def back(name: str = name, before: int = before) -> None:
            state = supervisor.states()[name]
            if state["statename"] != "RUNNING" or state["pid"] == before:
                raise NotReady(state["statename"])

        wait_until(back, 15)
    with psycopg.connect(running.env()["DATABASE_URL"]) as app:
        assert app.execute("SELECT 1").fetchone() == (1,)
    output = (running.home.root / "demo.log").read_text
    wait_until(lambda: _contains(output(), "openbao had ended and was started again"), 10)


def _contains(text: str, part: str) -> None:
    if part not in text:
        raise NotReady(text)


def test_a_second_start_says_where_the_first_one_is(running: RunningDemo) -> None:
    second = run(running.home.root, *SUBSET)
    assert second.returncode == 0
    assert f"running already: {running.url}" in second.stdout


def test_its_memory_is_told_by_program(running: RunningDemo) -> None:
    taken = memory.by_program(running.home)
    assert taken.keys() == {"supervisor", "postgres", "valkey", "openbao", "identity", "gateway"}
    assert all(2**20 < size < 2**29 for size in taken.values()), taken


def test_users_processes_have_no_secrets_in_their_environment(running: RunningDemo) -> None:
    secrets = {path.read_bytes().strip() for path in (running.home.root / "secrets").iterdir() if path.is_file()}
    for process in leftovers.find(running.home.root):
        environ = "\n".join(process.environ().values()).encode()
        assert not [each for each in secrets if each and each in environ], process.cmdline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_everything_in_ten_seconds(number: int, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "deploy.local.demo",
        "--dir",
        str(tmp_path),
        "--only",
        "postgres,valkey,identity,gateway",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=TREE, env=clean_env(), **pipes) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Ctrl-C ends it" in line:
                break
        # A training rank: it outlives whoever started it, and takes no notice of TERM.
        rank = subprocess.Popen(
            ["sh", "-c", "trap '' TERM; sleep 100 & wait; wait"],
            env={**os.environ, MARK: str(tmp_path)},
            start_new_session=True,
        )
        started = time.monotonic()
        process.send_signal(number)
        said = process.stdout.read()
        process.wait()
        rank.wait()
    assert (process.returncode, "ended" in said) == (0, True), said
    assert time.monotonic() - started < 10
    assert leftovers.find(tmp_path) == []


def test_nothing_is_left_when_the_runner_itself_is_killed(tmp_path: Path) -> None:
    with demo(tmp_path, "--only", "postgres,valkey,identity"):
        processes = leftovers.find(tmp_path)
        assert len(processes) >= 4
        runner = next(each for each in psutil.Process().children() if str(tmp_path) in each.cmdline())
        runner.kill()
        _, alive = psutil.wait_procs(processes, timeout=15)
        assert alive == []
    again = run(tmp_path, "--stop")
    assert (again.returncode, again.stdout) == (0, "no demo is running\n")


def test_what_does_not_come_up_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("9\n")
    failed = run(tmp_path, *SUBSET)
    assert failed.returncode == 1
    assert "no PostgreSQL 9" in failed.stdout
    assert leftovers.find(tmp_path) == []


def test_a_program_that_keeps_ending_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    supervisor = Supervisor(home, tmp_path)
    broken = Program("broken", "Broken", ("sh", "-c", "echo 100%full disk; exit 3"), check=None)
    supervisor.configure([broken])
    daemon = supervisor.launch({"PATH": os.environ["PATH"]})
    try:
        supervisor.start("broken")
        with pytest.raises(Failed, match=r"Broken does not answer(.|\n)*100%full disk"):
            supervisor.await_ready(broken, 20)
    finally:
        supervisor.shutdown()
        daemon.wait(timeout=10)


def test_without_envoy_it_says_so_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("valkey")
    (tmp_path / "hides/envoy").mkdir(parents=True)
    (tmp_path / "hides/envoy/__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hides"))  # before the wheel's package of that name
    if any(not each.is_relative_to(sys.prefix) for each in installed("envoy")):
        pytest.skip("an Envoy is installed on this machine")
    with demo(tmp_path / "demo", "--only", "valkey,gateway") as running:
        assert "no Envoy: neither" in (running.home.root / "demo.log").read_text()
        assert "MAAS_GATEWAY_URL" not in running.env()


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    refused = run(tmp_path, "--without", "wbe")
    assert refused.returncode == 2
    assert "unknown: wbe" in refused.stderr


def test_a_plan_starts_each_step_when_its_needs_are_met() -> None:
    order: list[str] = []

    def step(name: str, *needs: str) -> Step:
        return Step(name, name, lambda: order.append(name), needs)

    carry_out([step("web", "migrations", "absent"), step("migrations", "postgres"), step("postgres")], lambda *_: None)
    assert order == ["postgres", "migrations", "web"]
    with pytest.raises(ValueError, match="need each other"):
        carry_out([step("a", "b"), step("b", "a")], lambda *_: None)


def test_a_plan_ends_with_its_first_failure() -> None:
    def fail() -> str:
        raise Failed("no disk")

    later: list[str] = []
    with pytest.raises(Failed, match="no disk"):
        carry_out([Step("a", "a", fail), Step("b", "b", lambda: later.append("b"), ("a",))], lambda *_: None)
    assert later == []
