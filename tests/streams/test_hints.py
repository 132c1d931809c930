"""Hints are worth little, so they may cost nothing: no wait, no error, and never before the commit."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

from apps.streams.services import hint, hints


@pytest.mark.django_db(transaction=True)
def test_nothing_is_said_of_what_was_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(hints._sender, "post", lambda field, name: said.append(name))

    class Undo(Exception): ...

    with suppress(Undo), transaction.atomic():
        hint("job.1")
        raise Undo
    with transaction.atomic():
        hint("job.2")
        assert said == []
    assert said == ["job.2"]


@pytest.mark.parametrize("topic", ["", "job", "job.", "job.1.2x/", "Job.1", "job.1\n", "job." + "x" * 100])
def test_a_topic_is_a_topic(topic: str) -> None:
    with pytest.raises(ValueError):
        hint(topic)


@pytest.mark.django_db(transaction=True)
def test_without_redis_a_hint_is_lost_quietly(caplog: pytest.LogCaptureFixture) -> None:
    sender: Any = hints._Sender()
    with override_settings(REDIS_URL="redis://127.0.0.1:1"):
        began = time.monotonic()
        sender.post(hints.TOPICS, "job.1")
        assert time.monotonic() - began < 0.2
        sender.flush()
    assert "hint_lost" in caplog.text
