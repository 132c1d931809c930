"""The search of frames finds what is in them: without this, finding nothing would say nothing."""

from __future__ import annotations

import base64
import time
from urllib.parse import quote

import pytest

from apps.streams import services as streams
from tests.canaries import Canaries
from tests.prove.conftest import Portal
from tests.prove.frames import Frames
from tests.prove.stack import until

pytestmark = [pytest.mark.prove, pytest.mark.django_db, pytest.mark.timeout(120)]


def test_a_value_in_a_frame_is_found_in_each_of_its_forms(portal: Portal) -> None:
    canaries, job = Canaries(), portal.seeds.running
    value = canaries.plant("secret", "a/b+")
    told = [value, base64.b64encode(f"x{value}yz".encode()).decode(), quote(value, safe="")]
    frames = Frames(portal.url, portal.seeds.cookies["data-scientist"]).start()
    try:
        frames.follow(job.topic)
        until(lambda: frames.told("log"), 30, what="the job's log comes")
        canaries.expect_none(frames="\n".join(frames.kept))
        lines = [streams.LogLine(time.time_ns(), "INFO", 0, n, f"token={text}") for n, text in enumerate(told)]
        streams.append(job.topic, streams.LogFrame(streams.Source(0, 1, "master-0"), lines))
        until(lambda: "token=" in frames.kept[-1], 30, what="the lines come")
    finally:
        frames.stop()
    found = canaries.hits(frames="\n".join(frames.kept))
    assert {hit.split(" (")[1].split(")")[0].split(" at ")[0] for hit in found} == {"plain", "base64", "url-encoded"}
