"""What commands say to arguments that make no sense: a sentence and an exit code, no traceback."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from apps.jobs.models import Job
from tests import factories
from tests.factories import DOCUMENT, World


@pytest.mark.parametrize(
    "options", [["--from", "-1"], ["--to", "9" * 30], ["--json", "--to", "-3"], ["--json", "--width", "0"]]
)
def test_a_stretch_that_is_none(world: World, options: list[str]) -> None:
    job = factories.job(world.scientist, world.place)
    with pytest.raises(CommandError, match="must be from") as refused:
        call_command("points", job.pk, "--as", world.scientist.sub, *options, stdout=StringIO())
    assert refused.value.returncode == 2


@pytest.mark.parametrize(
    "content",
    [b"begun: 2026-13-45", b"[" * 5000, b"\xff\xfe\x00", b"- a", b"", b"a: 1\n---\nb: 2", b"a: [", b"a: !!python/x 1"],
)
def test_a_file_that_is_no_document(tmp_path: Path, content: bytes) -> None:
    spec = tmp_path / "job.yaml"
    spec.write_bytes(content)
    with pytest.raises(CommandError, match=str(spec)):
        call_command("render", "--spec", str(spec), stdout=StringIO())


def test_a_key_of_another_document_is_said(world: World, tmp_path: Path) -> None:
    spec = tmp_path / "job.json"

    def submit(key: str, **changes: object) -> None:
        spec.write_text(json.dumps({**DOCUMENT, **changes}))
        who = ["--tenant", "nlp", "--as", world.scientist.sub]
        call_command("submit", "--spec", str(spec), *who, "--key", key, stdout=StringIO())

    submit("nightly")
    submit("nightly")
    with pytest.raises(CommandError, match="Choose a new one"):
        submit("nightly", steps=41)
    with pytest.raises(CommandError, match="at most 255"):
        submit("k" * 256)
    assert Job.objects.for_system().count() == 1
