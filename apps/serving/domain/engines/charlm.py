"""The small character model of the demo, computed by numpy on the host."""

from __future__ import annotations

from apps.serving.domain.engines.base import Device, Engine, Facts, Operand, Serving, whole

FLOAT = 8
"""Bytes of a number: the model trains and serves in float64."""
RUNTIME = 160 << 20
"""The interpreter with numpy and the HTTP server, before a model is in it."""
REQUESTS = 16
"""Answers that its server makes at a time."""
LOAD_BYTES_A_SECOND = 50 << 20
"""Read, verified and unpacked, on a slow disk."""


def _fetch(ticket: str, into: str) -> list[str]:
    return ["python", "-m", "deploy.workloads.charlm.fetch", "--ticket", ticket, "--into", into]


def _command(serving: Serving) -> list[str]:
    return [
        "python", "-m", "deploy.workloads.charlm.serve",
        "--checkpoint", serving.directory, "--port", str(serving.port), "--name", serving.model,
    ]  # fmt: skip


def _need(facts: Facts) -> list[Operand]:
    parameters, context = whole(facts, "parameters"), whole(facts, "context")
    weights = parameters * FLOAT or whole(facts, "bytes")
    return [
        Operand("weights", weights, {"parameters": parameters, "each": FLOAT}),
        Operand("loading", whole(facts, "bytes")),
        Operand("cache", context * FLOAT * REQUESTS, {"context": context, "requests": REQUESTS}),
        Operand("runtime", RUNTIME),
    ]


def _startup_seconds(facts: Facts) -> int:
    return 60 + whole(facts, "bytes") // LOAD_BYTES_A_SECOND


ENGINE = Engine(
    key="charlm",
    name="charlm",
    formats=frozenset({"charlm"}),
    image="maas/charlm:1",
    port=8000,
    device=Device.HOST,
    splits=False,
    fetch=_fetch,
    command=_command,
    need=_need,
    startup_seconds=_startup_seconds,
    started="/v1/models",
    ready="/health",
)
