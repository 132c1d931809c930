"""The loss watch: from the figures of a run's log, whether it still learns.

OK, SUSPECT, TRIPPED. A figure that is no number is found first: it fails every comparison. What is abnormal never goes
into what later losses are held against. Only steps and figures count, in the order of their steps: neither names nor
the order in which points arrive, nor a restart that makes steps again.
"""

from apps.jobs.domain.losswatch.history import LAG, Point, Snapshot, follow, needs_all
from apps.jobs.domain.losswatch.machine import ALERTS, Finding, Memory, State, look
from apps.jobs.domain.losswatch.settings import ACTIONS, FIELDS, OFF, PRESETS, Action, Rules, Settings, fields

__all__ = [
    "ACTIONS",
    "ALERTS",
    "FIELDS",
    "LAG",
    "OFF",
    "PRESETS",
    "Action",
    "Finding",
    "Memory",
    "Point",
    "Rules",
    "Settings",
    "Snapshot",
    "State",
    "fields",
    "follow",
    "look",
    "needs_all",
]
