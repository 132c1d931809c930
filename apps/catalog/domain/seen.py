"""What a look at a transfer's pod comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SeenPod:
    """`phase` as Kubernetes says; `waiting` why it does not run yet, as "code: text"; `exit_code` when it has ended."""

    phase: str
    waiting: str = ""
    exit_code: int | None = None

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def read_pod(pod: Mapping[str, Any]) -> SeenPod:
    """Every field may be missing or odd."""
    status = pod.get("status") or {}
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or []), {})
    state = container.get("state") or {}
    code = (state.get("terminated") or {}).get("exitCode")
    return SeenPod(
        str(status.get("phase") or "Pending"),
        _waiting(state.get("waiting") or {}, status.get("conditions") or []),
        code if isinstance(code, int) else None,
    )


def _waiting(waiting: Mapping[str, Any], conditions: list[Mapping[str, Any]]) -> str:
    if waiting.get("reason") and waiting["reason"] != "ContainerCreating":
        return f"{waiting['reason']}: {waiting.get('message') or ''}"[:300]
    for condition in conditions:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"{condition.get('reason') or ''}: {condition.get('message') or ''}"[:300]
    return ""
