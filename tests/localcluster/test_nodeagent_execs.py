"""Processes started beside a container's first one: they see what it sees, and end with it or with their asker."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from apps.localcluster.nodeagent import execs, execute, machine, records, sandbox
from apps.localcluster.nodeagent.execute import ExecError
from tests.localcluster.test_nodeagent_shim import NOBODY, Shims, shims, view

__all__ = ["shims"]
LOOK = ["sh", "-c", "cat /tmp/mark; cat /data/in/file; hostname; id -u; echo $A >&2; exit 7"]
MARK = ["sh", "-c", "echo own > /tmp/mark; echo data > /data/in/file; sleep 60"]


async def look(shims: Shims, tmp_path: Path, *, user_namespace: bool, prefix: list[str] | None = None) -> list[str]:
    place = tmp_path / "place"
    place.mkdir()
    bind = sandbox.Bind(str(place / "volume"), "/data/in")
    folder = shims.start(MARK, view=view(place, bind, user_namespace=user_namespace), prefix=prefix)
    while not (place / "volume" / "file").exists() or not (place / "volume" / "file").read_text():
        await asyncio.sleep(0.02)
    code, output = await execute.output(folder, LOOK, 1000)
    assert code == 7
    return output.split()


@pytest.mark.skipif(not machine.examine().mounts, reason="this machine allows no private mounts")
async def test_a_process_sees_what_the_container_sees(shims: Shims, tmp_path: Path) -> None:
    out = await look(shims, tmp_path, user_namespace=machine.examine().user_namespace)
    assert out == ["own", "data", "pod-0", str(os.geteuid())]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become somebody else")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python that everybody can read")
async def test_the_same_in_a_container_of_an_ordinary_user(shims: Shims, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and "pytest-of-" in str(folder):
            folder.chmod(0o755)
    tmp_path.chmod(0o777)
    prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    if subprocess.run([*prefix, "unshare", "-Ur", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine gives ordinary users no namespaces")
    out = await look(shims, tmp_path, user_namespace=True, prefix=prefix)
    assert out == ["own", "data", "pod-0", str(NOBODY)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_a_process_is_the_containers_user_in_its_environment(shims: Shims) -> None:
    folder = shims.start(["sleep", "60"], uid=1234, gid=2345, groups=(3456,))
    assert await execute.output(folder, ["sh", "-c", "id -u; id -G; echo $PATH"], 1000) == (
        0,
        "1234\n2345 3456\n/usr/bin:/bin\n",
    )


async def test_what_cannot_be_started_is_said_and_the_container_goes_on(shims: Shims) -> None:
    folder = shims.start(["sleep", "60"])
    with pytest.raises(ExecError, match=r'failed to exec in container: exec: "nope": executable file not found'):
        await execute.output(folder, ["nope"], 1000)
    assert await execute.output(folder, ["echo", "still"], 1000) == (0, "still\n")


async def test_nothing_that_is_asked_ends_the_container(shims: Shims) -> None:
    folder = shims.start(["sleep", "60"])
    with pytest.raises(ExecError, match="argument list too long"):
        await execute.output(folder, ["echo", "x" * execs.LARGEST], 100)
    with pytest.raises(ExecError, match="embedded null byte"):
        await execute.output(folder, ["echo", "a\0b"], 100)
    with pytest.raises(ExecError, match="no command specified"):
        await execute.output(folder, [], 100)
    with execs.open_socket(folder, listen=False) as odd:
        socket.send_fds(odd, [b"no order"], [0, 0, 0])
        assert b"failed to exec" in odd.recv(1000)
    assert await execute.output(folder, ["echo", "still"], 1000) == (0, "still\n")


async def test_an_asker_that_leaves_ends_its_process(shims: Shims, tmp_path: Path) -> None:
    folder = shims.start(["sleep", "60"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(execute.output(folder, ["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 60"], 100), 1)
    pid = int((tmp_path / "pid").read_text())
    while Path(f"/proc/{pid}").exists():
        await asyncio.sleep(0.02)
    assert await execute.output(folder, ["echo", "still"], 1000) == (0, "still\n")


async def test_a_process_ends_with_its_container_which_keeps_its_own_exit_code(shims: Shims) -> None:
    folder = shims.start(["sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.05; done"])
    asked = asyncio.create_task(execute.output(folder, ["sleep", "60"], 100))
    await asyncio.sleep(0.3)
    records.ask_to_stop(records.attempt(folder), 10)
    assert await asked == (execute.KILLED, "")
    assert shims.ended(folder)["code"] == 5
    with pytest.raises(ExecError, match="container is not running"):
        await execute.output(folder, ["true"], 100)


async def test_a_child_left_in_the_background_holds_nobody_up(shims: Shims) -> None:
    folder = shims.start(["sleep", "60"])
    assert await execute.output(folder, ["sh", "-c", "sleep 60 & echo left; exit 3"], 100) == (3, "left\n")


async def test_output_is_cut_and_the_rest_dropped(shims: Shims) -> None:
    folder = shims.start(["sleep", "60"])
    assert await execute.output(folder, ["sh", "-c", "yes | head -c 1000000"], 10) == (0, "y\n" * 5)
