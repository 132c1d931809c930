"""A place made and compared, object by object."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from apps.adapters.errors import Conflict, NotFound, Refused
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.tenants.domain.drift import (
    APPLIED,
    DRIFTED,
    MISSING,
    REFUSED,
    TAKEN,
    WAITING,
    Difference,
    Found,
    differences,
    is_ours,
)
from apps.tenants.domain.place import ESSENTIAL, PORTAL_NAMESPACE, Step, place_steps, queue_command
from apps.tenants.models import Placement
from apps.tenants.services import place_of
from apps.tenants.services.seen import Look

AGAIN = timedelta(minutes=5)
SOON = timedelta(seconds=1)
SHUT_AGAIN = timedelta(seconds=10)
SHUT = ("Closing", "Closed")
QUEUE_STATE = "status.state"


class Placing:
    """What was applied before is only compared: what somebody changed or deleted in the cluster is reported, and
    restored when a person asks for it. What we ourselves want otherwise than before is applied."""

    def __init__(self, api: KubeApi, placement: Placement) -> None:
        self._api, self._placement = api, placement
        self._place = place_of(placement)
        self._steps = place_steps(self._place)
        self._known = {one.key: one for one in placement.found}
        self._found: dict[str, Found] = {}
        self._is_open = False

    @property
    def steps(self) -> list[Found]:
        """Every step: as found now, else as known before."""
        return [self._found.get(step.key) or self._before(step) for step in self._steps]

    def run(self) -> Look:
        """One look at every object. Raises Unavailable, Conflict, RightMissing: then `steps` tells how far it came."""
        for step in self._steps:
            try:
                self._found[step.key] = self._look(step)
            except (Conflict, RightMissing):
                raise
            except Refused as error:
                self._found[step.key] = replace(self._before(step), state=REFUSED, text=error.text, fields=())
        state, again = self._verdict()
        return Look(state, timezone.now() + again, "", self.steps, looked=True)

    def _before(self, step: Step) -> Found:
        return self._known.get(step.key) or Found(step.key, step.kind, step.name)

    def _look(self, step: Step) -> Found:
        known, mark = self._before(step), step.mark(self._placement.round)
        plain = replace(known, fields=(), text="")
        try:
            live = self._api.get(objects.object_path(step.manifest))
        except NotFound:
            if known.mark == mark:
                return replace(plain, state=MISSING, version="")
            return self._apply(step, plain, mark) if self._has_room(step) else replace(plain, state=WAITING)
        if not is_ours(live, self._place.tenant):
            return replace(plain, state=TAKEN)
        if live["metadata"].get("deletionTimestamp"):
            return replace(plain, state=WAITING, mark="")
        if known.mark != mark:
            return self._apply(step, plain, mark)
        return self._compare(step, known, live)

    def _has_room(self, step: Step) -> bool:
        return not step.is_namespaced or self._found["namespace"].state in (APPLIED, DRIFTED)

    def _apply(self, step: Step, plain: Found, mark: str) -> Found:
        """By force: on a restore, fields that somebody else has taken over come back to us."""
        stored = self._api.apply(objects.object_path(step.manifest), step.manifest, force=True).object
        if step.key == "queue":
            self._note_queue(stored)
            if stored.get("status", {}).get("state") in SHUT:
                self._open(stored)
        return replace(plain, state=APPLIED, mark=mark, version=_version(stored))

    def _compare(self, step: Step, known: Found, live: dict[str, Any]) -> Found:
        if step.key == "queue":
            self._note_queue(live)
        if known.version == _version(live) and known.state in (APPLIED, DRIFTED):
            return known
        path = objects.object_path(step.manifest)
        wanted = self._api.apply(path, step.manifest, force=True, dry_run=True).object
        fields = differences(live, wanted)
        if step.key == "queue" and (state := live.get("status", {}).get("state")) in SHUT:
            fields = (Difference(QUEUE_STATE, state, "Open"), *fields)
        return replace(known, state=DRIFTED if fields else APPLIED, fields=fields, text="", version=_version(live))

    def _note_queue(self, queue: dict[str, Any]) -> None:
        self._is_open = queue.get("status", {}).get("state") == "Open"

    def _open(self, queue: dict[str, Any]) -> None:
        command = queue_command(self._place, "OpenQueue", self._placement.round, queue["metadata"]["uid"])
        try:
            self._api.create(objects.path(objects.VOLCANO_COMMAND, PORTAL_NAMESPACE), command)
        except Conflict:
            pass  # sent before, and not carried out yet

    def _verdict(self) -> tuple[str, timedelta]:
        """A job is refused while its queue's status is not Open, so the place is ready only then."""
        found = {one.key: one for one in self.steps}
        states = {one.state for one in found.values()}
        if states & {REFUSED, TAKEN} or any(found[key].state == MISSING for key in ESSENTIAL):
            return Placement.State.FAILED, AGAIN
        if any(field.field == QUEUE_STATE for field in found["queue"].fields):
            return Placement.State.FAILED, SHUT_AGAIN
        if WAITING in states or not self._is_open:
            return Placement.State.ASKED, SOON
        return Placement.State.READY, AGAIN


def _version(body: dict[str, Any]) -> str:
    return str(body["metadata"].get("resourceVersion", ""))
