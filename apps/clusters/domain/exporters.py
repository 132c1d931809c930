"""Exporters of accelerators' figures: what they call them, and reading what a Prometheus has of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FIGURES = ("use", "memory", "memory_free", "memory_total", "temperature", "power", "fault")
UNITS = {"B": 1, "MB": 10**6, "MiB": 2**20}

Pod = tuple[str, str]
"""Namespace and name."""

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,199}")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,99}")


class Wrong(ValueError):
    """The table of exporters cannot be read."""


@dataclass(frozen=True)
class Exporter:
    """`figures` are metrics by figure; of these and of labels, the first that is there counts."""

    key: str
    name: str
    fault: str
    memory_unit: int
    pod: Sequence[str]
    namespace: Sequence[str]
    device: Sequence[str]
    model: Sequence[str]
    figures: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Sample:
    """A series' newest value. `at` in seconds since 1970."""

    labels: Mapping[str, str]
    at: float
    value: float


@dataclass
class Device:
    """An accelerator of a pod; memory in bytes, None for what is not told. `at` is its newest scrape."""

    exporter: str
    device: str
    model: str
    at: float = 0.0
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def memory_total(self) -> float | None:
        known = self.figures
        if "memory" in known and "memory_free" in known:
            return known["memory"] + known["memory_free"]
        return known.get("memory_total")

    def to_row(self) -> dict[str, Any]:
        figures = {name: value for name, value in self.figures.items() if name not in ("memory_free", "memory_total")}
        return {
            "exporter": self.exporter,
            "device": self.device,
            "model": self.model,
            "memory_total": self.memory_total,
            **figures,
        }


def read_table(document: Any) -> list[Exporter]:
    """The exporters of a table. Raises Wrong."""
    if not isinstance(document, dict):
        raise Wrong("The table of exporters is no mapping.")
    return [_exporter(str(key), body) for key, body in document.items()]


def _exporter(key: str, body: Any) -> Exporter:
    try:
        labels = {name: _names(body[name], _LABEL) for name in ("pod", "namespace", "device", "model")}
        figures = {str(name): _names(names, _METRIC) for name, names in body["figures"].items()}
        unit = UNITS[body.get("memory_unit", "B")]
        name, fault = str(body["name"])[:60], str(body.get("fault") or "")[:30]
    except (KeyError, TypeError, AttributeError) as error:
        raise Wrong(f"The exporter {key} is not whole: {error!r}") from error
    if unknown := figures.keys() - set(FIGURES):
        raise Wrong(f"The exporter {key} has no such figures: {', '.join(sorted(unknown))}")
    return Exporter(key, name, fault, unit, figures=figures, **labels)


def _names(value: Any, pattern: re.Pattern[str]) -> tuple[str, ...]:
    names = tuple(str(name) for name in value)
    if bad := next((name for name in names if not pattern.fullmatch(name)), None):
        raise Wrong(f"{bad!r} cannot be the name of a metric or a label.")
    return names


def metrics_of(exporters: Iterable[Exporter]) -> list[str]:
    """Every metric of some exporters."""
    return sorted({name for one in exporters for names in one.figures.values() for name in names})


def selectors(metrics: Iterable[str], pods: Iterable[Pod], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """What to ask for these metrics of these pods, once for each pair of labels that may name namespace and pod."""
    pods = list(pods)
    names = "|".join(sorted(set(metrics)))
    spaces = "|".join(sorted({re.escape(space) for space, _pod in pods}))
    some = "|".join(sorted({re.escape(pod) for _space, pod in pods}))
    # In PromQL's text a backslash is written twice.
    spaces, some = spaces.replace("\\", "\\\\"), some.replace("\\", "\\\\")
    return [f'{{__name__=~"{names}",{space}=~"{spaces}",{pod}=~"{some}"}}' for space, pod in sorted(set(pairs))]


def label_pairs(exporters: Iterable[Exporter]) -> set[tuple[str, str]]:
    """The labels that name a pod's namespace and the pod, as they stand together."""
    return {pair for one in exporters for pair in zip(one.namespace, one.pod, strict=False)}


def first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of some labels that is there."""
    return next((labels[name] for name in names if labels.get(name)), "")


def devices_of(
    samples: Iterable[Sample], exporters: Iterable[Exporter], wanted: Mapping[Pod, float]
) -> dict[Pod, list[Device]]:
    """The accelerators that these samples tell of, by pod. A value that is no number tells nothing, nor one from before
    the moment since which the pod is `wanted`: a gang that restarts gets the same names."""
    places = {
        metric: (exporter, figure, rank)
        for exporter in exporters
        for figure, names in exporter.figures.items()
        for rank, metric in enumerate(names)
    }
    found: dict[Pod, dict[tuple[str, str], Device]] = {}
    ranks: dict[tuple[Pod, str, str, str], int] = {}
    for sample in samples:
        place = places.get(sample.labels.get("__name__", ""))
        if place is None or not math.isfinite(sample.value):
            continue
        exporter, figure, rank = place
        pod = first(sample.labels, exporter.namespace), first(sample.labels, exporter.pod)
        if sample.at < wanted.get(pod, math.inf):
            continue
        name = first(sample.labels, exporter.device)
        key = (pod, exporter.key, name, figure)
        if ranks.get(key, rank) < rank:
            continue
        ranks[key] = rank
        new = Device(exporter.key, name, first(sample.labels, exporter.model))
        device = found.setdefault(pod, {}).setdefault((exporter.key, name), new)
        device.at = max(device.at, sample.at)
        device.figures[figure] = sample.value * (exporter.memory_unit if figure.startswith("memory") else 1)
    return {pod: sorted(devices.values(), key=_place) for pod, devices in found.items()}


def _place(device: Device) -> tuple[str, int, str]:
    return device.exporter, int(device.device) if device.device.isdigit() else 0, device.device


SERIES = ("gpu:use", "gpu:memory", "gpu:temperature", "gpu:power")
"""Of all devices of a piece of work: their mean use in percent, the fullest memory in bytes, the hottest in °C, their
power in W."""


def totals(devices: Sequence[Device]) -> dict[str, float]:
    """One value of each of SERIES that anything is told of."""
    told = {name: [d.figures[name] for d in devices if name in d.figures] for name in FIGURES}
    found = {
        "gpu:use": sum(told["use"]) / len(told["use"]) if told["use"] else None,
        "gpu:memory": max(told["memory"], default=None),
        "gpu:temperature": max(told["temperature"], default=None),
        "gpu:power": sum(told["power"]) if told["power"] else None,
    }
    return {name: value for name, value in found.items() if value is not None}
