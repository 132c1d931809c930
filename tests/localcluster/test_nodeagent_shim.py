"""The shim beside each container: how containers start and end, and what is left to know of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.localcluster.nodeagent import machine, records, sandbox
from apps.localcluster.nodeagent.shim import Order

NOBODY = 65534


class Shims:
    """Starts shims in folders of its own and ends what is left of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.left = folder, []  # type: ignore[var-annotated]

    def start(self, argv: list[str], *, number: int = 0, prefix: list[str] | None = None, **more: Any) -> Path:
        folder = self.folder / str(number)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        order = Order(str(folder), argv, {"PATH": "/usr/bin:/bin"}, "/", 1 << 20, 3, **more)
        command = machine.module("shim")
        if prefix:
            command = [*prefix, "/usr/bin/python3", *command[1:]]
        shim = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=machine.ROOT, env={}, start_new_session=True
        )
        assert shim.stdin
        assert shim.stdout
        shim.stdin.write(order.encode())
        shim.stdin.close()
        shim.stdout.read()  # until the container runs, or cannot
        self.left.append(shim)
        return folder

    def ended(self, folder: Path, seconds: float = 10) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (folder / "exit.json").exists():
                return dict(json.loads((folder / "exit.json").read_text()))
            time.sleep(0.02)
        raise AssertionError("the container did not end")


@pytest.fixture
def shims(tmp_path: Path) -> Iterator[Shims]:
    world = Shims(tmp_path)
    yield world
    for shim in world.left:
        shim.kill()
        shim.wait()


def text(folder: Path) -> str:
    return "".join(line.split(" ", 3)[3] for line in (folder / "log").read_text().splitlines(keepends=True))


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143), ("kill -6 $$", 134)]
)
def test_exit_codes_are_those_of_a_container(shims: Shims, script: str, code: int) -> None:
    ending = shims.ended(shims.start(["sh", "-c", script]))
    assert ending["code"] == code
    assert ending["reason"] == ("Error" if code else "Completed")


def test_a_missing_program_is_a_start_error(shims: Shims) -> None:
    ending = shims.ended(shims.start(["nonsense", "x"]))
    assert (ending["code"], ending["reason"]) == (128, "StartError")
    assert 'exec: "nonsense": executable file not found in $PATH' in ending["message"]


def test_sigterm_first_then_sigkill_for_the_whole_group_after_the_grace(shims: Shims) -> None:
    script = "trap 'echo asked' TERM; sh -c 'trap \"\" TERM; echo child $$; sleep 60' & while :; do sleep 0.05; done"
    folder = shims.start(["sh", "-c", script])
    time.sleep(0.3)
    began = time.monotonic()
    records.ask_to_stop(records.attempt(folder), 0.8)
    ending = shims.ended(folder)
    assert 0.7 < time.monotonic() - began < 3
    assert ending["code"] == 137
    assert "asked" in text(folder)
    child = int(text(folder).split("child ")[1].split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_container_that_heeds_sigterm_ends_with_its_own_code(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "trap 'echo saved; exit 7' TERM; echo up; while :; do sleep 0.05; done"])
    while "up" not in text(folder):
        time.sleep(0.02)
    records.ask_to_stop(records.attempt(folder), 30)
    assert shims.ended(folder)["code"] == 7
    assert "saved" in text(folder)


def test_a_second_stop_can_only_shorten_the_time(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "trap '' TERM; echo up; sleep 60"])
    while "up" not in text(folder):
        time.sleep(0.02)
    records.ask_to_stop(records.attempt(folder), 0.5)
    records.ask_to_stop(records.attempt(folder), 60)
    assert shims.ended(folder, 3)["code"] == 137


def test_what_leaves_the_group_ends_with_the_container(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "setsid sh -c 'echo $$; exec sleep 60' & sleep 0.3; exit 0"])
    assert shims.ended(folder)["code"] == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(text(folder).split()[0]), 0)


def test_output_without_a_newline_and_with_odd_bytes_is_kept(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "printf 'a\\377b\\n中文'"])
    shims.ended(folder)
    assert b"a\xffb\n" in (folder / "log").read_bytes()
    assert (folder / "log").read_bytes().endswith("stdout F 中文\n".encode())


def test_a_second_shim_for_the_same_attempt_starts_nothing(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "echo one; sleep 1"])
    shims.start(["sh", "-c", "echo two"])
    shims.ended(folder)
    shims.start(["sh", "-c", "echo three"])
    assert text(folder) == "one\n"


def test_a_killed_shim_takes_its_container_along_and_the_run_counts_as_lost(shims: Shims) -> None:
    folder = shims.start(["sleep", "60"])
    seen = records.attempt(folder)
    assert seen.alive
    assert seen.started
    shims.left[0].kill()
    shims.left[0].wait()
    lost = records.attempt(folder)
    assert lost.ended
    assert (lost.ended["code"], lost.ended["reason"]) == (137, "ContainerStatusUnknown")
    time.sleep(0.1)
    stat = Path(f"/proc/{seen.started['pid']}/stat")
    assert not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_the_environment_of_the_starter_does_not_leak(shims: Shims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SECRET", "x")
    folder = shims.start(["env"])
    shims.ended(folder)
    assert "HOST_SECRET" not in text(folder)
    assert "PATH=/usr/bin:/bin" in text(folder)


# --- memory

MIB = 1 << 20
GROW = "import sys, time; data = bytearray(b'x') * (200 << 20); print('grown', flush=True); time.sleep(60)"
FORK = """
import os, time
data = bytearray(b'x') * (60 << 20)
for _ in range(4):
    if os.fork() == 0:
        time.sleep(3)
        os._exit(0)
for _ in range(4):
    os.wait()
"""


def test_a_container_past_its_memory_is_killed_for_it(shims: Shims) -> None:
    ending = shims.ended(shims.start(["/usr/bin/env", "python3", "-c", GROW], memory=100 * MIB))
    assert (ending["code"], ending["reason"]) == (137, "OOMKilled")
    ending = shims.ended(shims.start(["sh", "-c", "kill -9 $$"], number=1, memory=100 * MIB))
    assert (ending["code"], ending["reason"]) == (137, "Error")


def test_memory_that_forks_share_counts_once(shims: Shims) -> None:
    ending = shims.ended(shims.start(["/usr/bin/env", "python3", "-c", FORK], memory=150 * MIB))
    assert (ending["code"], ending["reason"]) == (0, "Completed")


# --- a file system of its own


def view(folder: Path, *binds: sandbox.Bind, user_namespace: bool) -> sandbox.View:
    for name in ("root", "scratch", "volume"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    links, system = sandbox.system_view()
    return sandbox.View(
        str(folder / "root"), str(folder / "scratch"), "pod-0", user_namespace, links, (*system, *binds)
    )


PROBE = f"""
hostname
echo x > /data/in/file; echo y > /etc/deep/er/file
cat /etc/passwd > /dev/null && echo system
touch /usr/file 2> /dev/null || echo readonly
test -e {machine.ROOT}/pyproject.toml || echo hidden
echo z > /tmp/t && echo scratch
echo user `id -u`
"""


def run_probe(shims: Shims, tmp_path: Path, *, user_namespace: bool, prefix: list[str] | None = None) -> list[str]:
    place = tmp_path / "place"
    place.mkdir()
    binds = (sandbox.Bind(str(place / "volume"), "/data/in"), sandbox.Bind(str(place / "volume"), "/etc/deep/er"))
    folder = shims.start(["sh", "-c", PROBE], view=view(place, *binds, user_namespace=user_namespace), prefix=prefix)
    ending = shims.ended(folder)
    assert ending["code"] == 0, ending
    assert (place / "volume" / "file").read_text() == "y\n"
    assert not Path("/etc/deep").exists()
    return text(folder).splitlines()


@pytest.mark.skipif(not machine.examine().mounts, reason="this machine allows no private mounts")
def test_volumes_stand_at_their_paths_and_nothing_of_the_machine_is_touched(shims: Shims, tmp_path: Path) -> None:
    out = run_probe(shims, tmp_path, user_namespace=machine.examine().user_namespace)
    assert out == ["pod-0", "system", "readonly", "hidden", "scratch", f"user {os.geteuid()}"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become somebody else")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python that everybody can read")
def test_the_same_as_an_ordinary_user(shims: Shims, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and "pytest-of-" in str(folder):
            folder.chmod(0o755)
    tmp_path.chmod(0o777)
    prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    allowed = (
        subprocess.run([*prefix, "unshare", "-Ur", "-m", "true"], check=False, capture_output=True).returncode == 0
    )
    if not allowed:
        pytest.skip("this machine gives ordinary users no namespaces")
    out = run_probe(shims, tmp_path, user_namespace=True, prefix=prefix)
    assert out == ["pod-0", "system", "readonly", "hidden", "scratch", f"user {NOBODY}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_wanted_user_and_groups_are_set(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "id -u; id -g; id -G"], uid=1234, gid=2345, groups=(3456,))
    shims.ended(folder)
    assert text(folder).split() == ["1234", "2345", "2345", "3456"]


def test_a_shim_starts_fast_and_small(shims: Shims) -> None:
    began = time.monotonic()
    folder = shims.start(["sleep", "60"])
    assert time.monotonic() - began < 2  # 0.1 s on an idle machine
    status = Path(f"/proc/{records.attempt(folder).shim}/status").read_text()
    assert int(status.split("VmRSS:")[1].split()[0]) < 20_000  # kB
    shims.left[0].send_signal(signal.SIGTERM)
    assert shims.ended(folder)["code"] == 143
