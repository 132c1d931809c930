"""Whether what came about is what was recorded; what was not the same in all recordings is free."""

from __future__ import annotations

import re
from typing import Any

from tests.localcluster.contract.volcano.cluster import Object

MOMENTARY = {"(none)", "Restarting", "Aborting", "Terminating", "Completing", "Inqueue"}
"""Phases that one may go past so fast that no watch shows them, or stay in for longer."""

_UNTOLD = {"Running", "Completed", "Unknown"}

_IN_ORDER = (
    "seen",
    "final.jobs",
    "final.podgroups",
    "final.pods",
    "final.gpus",
    "final.queues",
    "phase_sequences",
    "pods_created_more_than_once",
    "event",
    "answers",
    "facts",
)
"""How `varied` goes through an outcome. It was cut when it became long: nothing is known of what follows."""


class Judge:
    """`at_once`: jobs that have no reason to wait for being let in."""

    def __init__(self, varied: str, at_once: frozenset[str] = frozenset()) -> None:
        self._at_once = at_once
        self._named = [
            path
            for path, values in re.findall(
                r"(?:^|; )((?:seen|final|phase|pods_c|event|answers|facts)[^:]*): ([^;]*)", varied
            )
            if values != "which nodes were used"
        ]
        self._cut = _turn(self._named[-1]) if varied.endswith(" ...") and self._named else len(_IN_ORDER)

    def free(self, path: str) -> bool:
        """Whether the recordings differ there, or in something below or around it."""
        return _turn(path) >= self._cut or any(
            path == named or path.startswith(f"{named}.") or named.startswith(f"{path}.") for named in self._named
        )

    def difference(self, wanted: Any, got: Any, path: str) -> str | None:
        """The first one; None if there is none. Texts are nobody's business here."""
        if isinstance(wanted, dict) and isinstance(got, dict):
            return self._of_objects(wanted, got, path)
        if path.endswith(".conditions") and isinstance(wanted, list) and isinstance(got, list):
            wanted, got = _without_texts(wanted), _without_texts(got)
        return None if wanted == got else f"{path} is {got!r}, not {wanted!r}"

    def _of_objects(self, wanted: Object, got: Object, path: str) -> str | None:
        for key in dict.fromkeys([*wanted, *got]):
            below = f"{path}.{key}"
            if key == "gpus_by_node" or _is_text(below):
                continue
            if key in wanted and key in got:
                found = self.difference(wanted[key], got[key], below)
            elif key in got:
                found = None if self.free(below) else f"{below} is {got[key]!r}, recorded was nothing"
            else:
                found = None if not wanted[key] and self.free(below) else f"{below} is missing: {wanted[key]!r}"
            if found:
                return found
        return None

    def of_phases(self, wanted: dict[str, list[str]], got: dict[str, list[str]]) -> str | None:
        for key in dict.fromkeys([*wanted, *got]):
            path, phases, recorded = f"phase_sequences.{key}", got.get(key, []), wanted.get(key)
            if self.free(path):
                continue
            if recorded is None or self._kept(key, phases) not in self._allowed(key, recorded):
                return f"{path} is {' > '.join(phases) or 'nothing'}, not {' > '.join(recorded or ['nothing'])}"
        return None

    def _kept(self, key: str, phases: list[str]) -> list[str]:
        if not key.startswith("PodGroup/"):
            return lasting(phases)
        # The scheduler tells a group's phase at its next look, up to a second later. Where the group is deleted or let
        # in meanwhile nobody sees it; that its pods ran is for the phases of the Job to say.
        followed = list(zip(phases, [*phases[1:], ""], strict=True))
        if key.removeprefix("PodGroup/").removesuffix("-<uid>") in self._at_once:
            followed = [pair for pair in followed if pair != ("Pending", "Inqueue")]
        kept: list[str] = []
        for phase, _ in followed:
            while phase == "(deleted)" and kept[-1:] and kept[-1] in _UNTOLD:
                kept.pop()
            kept.append(phase)
        return lasting(kept)

    def _allowed(self, key: str, recorded: list[str]) -> list[list[str]]:
        kept = self._kept(key, recorded)
        return [kept, [*kept, "Running"]] if recorded[-1:] == ["Inqueue"] else [kept]

    def of_lives(self, wanted: dict[str, int], got: dict[str, int]) -> str | None:
        """Pods made more than once. Volcano itself makes one once more than needed now and then."""
        place = "pods_created_more_than_once"
        if self.free(place):
            return None  # which pods were the victims differed
        for pod, count in wanted.items():
            made = got.get(pod.removeprefix("Pod/"), 0)
            if made not in (count, count + 1):
                return f"{pod} was made {made} times, not {count}"
        extra = [pod for pod, count in got.items() if count > 1 and f"Pod/{pod}" not in wanted]
        return f"Pod/{extra[0]} was made {got[extra[0]]} times, not once" if extra else None


def lasting(phases: list[str]) -> list[str]:
    kept = [phase for phase in phases if phase not in MOMENTARY]
    return [phase for index, phase in enumerate(kept) if index == 0 or kept[index - 1] != phase]


def moved_on(wanted: Object, got: Object) -> Object:
    """The wanted state; a PodGroup recorded as Inqueue under a running job may have become Running since."""
    groups = dict(wanted.get("podgroups") or {})
    for label, group in groups.items():
        now = (got.get("podgroups") or {}).get(label, {})
        job = (wanted.get("jobs") or {}).get(label.removesuffix("-<uid>"), {})
        if (group.get("phase"), now.get("phase"), job.get("phase")) == ("Inqueue", "Running", "Running"):
            groups[label] = group | {key: now[key] for key in ("phase", "running", "conditions") if key in now}
    return wanted | {"podgroups": groups} if groups else wanted


def _turn(path: str) -> int:
    return max((index for index, start in enumerate(_IN_ORDER) if path.startswith(start)), default=0)


def _is_text(path: str) -> bool:
    return path.endswith(".message") or re.search(r"\.jobs\.[^.]+\.reason$", path) is not None


def _without_texts(conditions: list[Object]) -> list[list[str]]:
    return sorted([c.get("type", ""), c.get("status", ""), c.get("reason", "")] for c in conditions)
