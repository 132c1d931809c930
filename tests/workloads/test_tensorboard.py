"""The real TensorBoard, started as the pod is told to start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

from apps.jobs.domain import sidepods
from apps.jobs.domain.manifests import Place
from deploy.workloads.charlm.events import EventFile
from tests.ports import free_port

PREFIX = "/nlp/board-1"


def test_it_shows_what_charlm_writes_below_its_prefix(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    events = EventFile(volume / "runs/first")
    for step in (1, 2, 3):
        events.write(step, {"train/loss": 4.0 / step})
    place = Place("tenant-nlp", "q", "nlp", "nvidia.com/gpu")
    pod = sidepods.board_pod("1", "j", place, "maas/tensorboard:1", PREFIX, 60)
    port, told = free_port(), pod["spec"]["containers"][0]["args"]
    swaps = {sidepods.CHECKPOINTS: str(volume), "$(POD_IP)": "127.0.0.1", f"port={sidepods.BOARD_PORT}": f"port={port}"}
    for old, new in swaps.items():
        told = [one.replace(old, new) for one in told]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tensorboard.main", *told]
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        try:
            found = loss(f"http://127.0.0.1:{port}{PREFIX}")
        finally:
            process.terminate()
    assert [(step, round(value, 4)) for _at, step, value in found] == [(1, 4.0), (2, 2.0), (3, 1.3333)]


def loss(url: str) -> list[tuple[float, int, float]]:
    end = time.monotonic() + 60
    while True:
        try:
            assert httpx.get(f"{url}/", timeout=5).status_code == 200
            answer = httpx.get(f"{url}/data/plugin/scalars/scalars?tag=train/loss&run=runs/first", timeout=5)
            if answer.status_code == 200:
                return [tuple(one) for one in json.loads(answer.text)]
        except httpx.TransportError:
            pass
        assert time.monotonic() < end
        time.sleep(0.3)
