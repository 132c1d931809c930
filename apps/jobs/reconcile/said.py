"""What a cluster says in its events of Volcano jobs and PodGroups, read once for many where reading it is dear.

kube-apiserver has no copy of events in memory: whatever a list selects, it reads and decodes all events of the
namespace. With the 3,500 waiting jobs of an outage's backlog one list took 2 s, and each look at a job asked for two.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.calls import KubeApi

SLOW = 0.5
KEPT_TIMES = 10
"""An answer that took SLOW seconds or more is used this many times as long as it took."""

Event = dict[str, object]


@dataclass(frozen=True)
class _Answer:
    until: float
    by_name: Mapping[str, list[Event]]


class Said:
    """The events of one namespace, for any number of threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: _Answer | None = None
        self._reading = threading.Lock()

    def of(self, api: KubeApi, namespace: str, names: Iterable[str]) -> list[Event]:
        """Events about the jobs and PodGroups of these names. Raises what `api.list` raises."""
        by_name = self._by_name(api, namespace)
        return [event for name in names for event in by_name.get(name, [])]

    def _by_name(self, api: KubeApi, namespace: str) -> Mapping[str, list[Event]]:
        kept = self._kept
        if kept is None:
            return self._read(api, namespace)
        if self._clock() < kept.until or not self._reading.acquire(blocking=False):
            return kept.by_name
        try:
            return self._read(api, namespace)
        finally:
            self._reading.release()

    def _read(self, api: KubeApi, namespace: str) -> Mapping[str, list[Event]]:
        begun = self._clock()
        by_name: dict[str, list[Event]] = defaultdict(list)
        for event in api.list(objects.path(objects.EVENT, namespace), field_selector="involvedObject.kind!=Pod"):
            by_name[event["involvedObject"].get("name", "")].append(event)
        ended = self._clock()
        took = ended - begun
        self._kept = _Answer(ended + KEPT_TIMES * took, by_name) if took >= SLOW else None
        return by_name


_namespaces: defaultdict[tuple[int, str], Said] = defaultdict(Said)


def events_of(cluster_id: int, api: KubeApi, namespace: str, names: Iterable[str]) -> list[Event]:
    """Events about the jobs and PodGroups of these names, as they are or, in a crowded namespace, lately were."""
    return _namespaces[cluster_id, namespace].of(api, namespace, names)
