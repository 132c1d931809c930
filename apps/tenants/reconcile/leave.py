"""A place taken away: the queue closed and deleted, then the namespace with everything in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from apps.adapters.errors import Conflict, NotFound, Refused
from apps.adapters.kubernetes import objects
from apps.adapters.kubernetes.answers import RightMissing
from apps.adapters.kubernetes.calls import KubeApi
from apps.tenants.domain.drift import DONE, REFUSED, TAKEN, WAITING, Found, is_ours
from apps.tenants.domain.place import PORTAL_NAMESPACE, queue_command
from apps.tenants.models import Placement
from apps.tenants.services import blockers_of, place_of
from apps.tenants.services.seen import Look

SOON = timedelta(seconds=1)
BLOCKED_AGAIN = timedelta(seconds=10)
AGAIN = timedelta(minutes=5)


class Leaving:
    """Each step is done again until it has nothing left to do; a step waits for the one before it."""

    def __init__(self, api: KubeApi, placement: Placement) -> None:
        self._api, self._placement = api, placement
        self._place = place_of(placement)
        name, queue = self._place.namespace, self._place.queue
        self._queue_path = objects.path(objects.QUEUE, name=queue)
        self._namespace_path = objects.path(objects.NAMESPACE, name=name)
        self._found = {
            "work": Found("work", "", ""),
            "close": Found("close", "Queue", queue),
            "delete-queue": Found("delete-queue", "Queue", queue),
            "delete-namespace": Found("delete-namespace", "Namespace", name),
        }

    @property
    def steps(self) -> list[Found]:
        return list(self._found.values())

    def run(self) -> Look:
        """Go as far as it goes now. Raises Unavailable, Conflict, RightMissing."""
        acts: dict[str, Callable[[], str]] = {
            "work": lambda: WAITING if blockers_of(self._placement) else DONE,
            "close": self._close,
            "delete-queue": lambda: self._delete(self._queue_path),
            "delete-namespace": lambda: self._delete(self._namespace_path),
        }
        for key, act in acts.items():
            state = self._try(key, act)
            if state not in (DONE, TAKEN):
                wait = AGAIN if state == REFUSED else BLOCKED_AGAIN if key == "work" else SOON
                return Look(Placement.State.LEAVING, timezone.now() + wait, "", self.steps, looked=True)
        return Look(Placement.State.GONE, None, "", self.steps, looked=True)

    def _try(self, key: str, act: Callable[[], str]) -> str:
        found = self._found[key]
        try:
            found = replace(found, state=act())
        except (Conflict, RightMissing):
            raise
        except Refused as error:
            found = replace(found, state=REFUSED, text=error.text)
        self._found[key] = found
        return found.state

    def _close(self) -> str:
        """Closed, so that nothing more is let in; Volcano says Closing while there is work inside."""
        try:
            queue = self._api.get(self._queue_path)
        except NotFound:
            return DONE
        state = queue.get("status", {}).get("state")
        if state == "Closed":
            return DONE
        if not is_ours(queue, self._place.tenant):
            return TAKEN
        if state != "Closing":
            command = queue_command(self._place, "CloseQueue", self._placement.round, queue["metadata"]["uid"])
            try:
                self._api.create(objects.path(objects.VOLCANO_COMMAND, PORTAL_NAMESPACE), command)
            except Conflict:
                pass  # sent before, and not carried out yet
        return WAITING

    def _delete(self, path: str) -> str:
        try:
            live = self._api.get(path)
        except NotFound:
            return DONE
        if not is_ours(live, self._place.tenant):
            return TAKEN
        if not live["metadata"].get("deletionTimestamp"):
            self._api.delete(path, uid=live["metadata"]["uid"])
        return WAITING
