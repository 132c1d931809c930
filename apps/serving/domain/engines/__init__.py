"""The engines that can serve a model: a module each, and a line here."""

from __future__ import annotations

from apps.serving.domain.engines import charlm
from apps.serving.domain.engines.base import Device, Engine, Facts, Operand, Serving

__all__ = ["ENGINES", "Device", "Engine", "Facts", "Operand", "Serving", "engine_for"]

ENGINES: dict[str, Engine] = {
    engine.key: engine
    for engine in (
        charlm.ENGINE,
    )
}  # fmt: skip


def engine_for(facts: Facts) -> Engine | None:
    """The engine that serves a version with these facts; None where there is none."""
    return next((engine for engine in ENGINES.values() if engine.reads(facts)), None)
