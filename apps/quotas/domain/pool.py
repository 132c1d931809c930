"""What is counted: one extended resource of one cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Pool:
    """`cluster` is a slug, `resource` a name such as `nvidia.com/gpu`."""

    cluster: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource} @ {self.cluster}"
