"""What controllers share: a way to write as any client does, and a loop that looks again where something changed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from apps.localcluster.apiserver import meta
from apps.localcluster.apiserver.deleting import Deleter, Options
from apps.localcluster.apiserver.errors import StatusError
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.requests import MASTERS, Request, Target, User
from apps.localcluster.apiserver.store import Event, Moved, Record, Store, decode, encode
from apps.localcluster.apiserver.writing import Writer

log = logging.getLogger(__name__)

Object = dict[str, Any]

MANAGER = "kube-controller-manager"
USER = User(f"system:{MANAGER}", groups=(MASTERS,))
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 30.0  # seconds until something that was refused is tried again


@dataclass(frozen=True)
class Cluster:
    """The API server from within: reads come from the store, writes go through admission and validation."""

    store: Store
    registry: Registry
    writer: Writer
    deleter: Deleter

    def kind(self, resource: str) -> Kind:
        found = self.registry.by_resource(resource)
        assert found is not None, resource
        return found

    async def create(self, resource: str, item: Object) -> Object:
        """Raises StatusError."""
        await asyncio.sleep(0)  # let requests in between
        namespace = item["metadata"].get("namespace", "")
        answer = await self.writer.create(self._request("POST", resource, namespace, "", "", item))
        return _read(answer.body)

    async def update(self, record: Record, item: Object, subresource: str = "") -> Object:
        """Write a changed object, or what of it belongs to a subresource. Raises StatusError, 409 when it has moved."""
        await asyncio.sleep(0)
        item["metadata"]["resourceVersion"] = str(record.version)
        answer = await self.writer.update(self._request("PUT", record.resource, *record.key, subresource, item))
        return _read(answer.body)

    def delete(self, record: Record, policy: str = "Background", grace: int | None = None) -> None:
        """Raises Moved."""
        self.deleter.remove(self.kind(record.resource), record, Options(grace, policy=policy))

    def _request(
        self, method: str, resource: str, namespace: str, name: str, subresource: str, item: Object
    ) -> Request:
        kind = self.kind(resource)
        target = Target("", kind.group, kind.version, kind.plural, namespace, name, subresource)
        return Request(method, target, {"fieldManager": MANAGER}, {}, USER, kind, encode(item))

    def owned(self, resource: str, owner: Record) -> list[Record]:
        """What an object controls, in its namespace."""
        found = self.store.select(resource, owner.key[0])
        return [each for each in found if owner.uid in each.owners and controller(each) == owner.uid]

    async def claim(self, resource: str, owner: Record, selects: Any) -> list[Record]:
        """What an object controls: orphans that it selects are adopted, what it no longer selects is let go."""
        kept = []
        for each in self.store.select(resource, owner.key[0]):
            holder = controller(each) if each.owners else ""
            wanted = selects(each.labels)
            if holder == owner.uid and not wanted:
                item = each.load()
                references = item["metadata"]["ownerReferences"]
                item["metadata"]["ownerReferences"] = [ref for ref in references if ref["uid"] != owner.uid]
                await self.update(each, item)
            elif holder == owner.uid:
                kept.append(each)
            elif not holder and wanted and not each.deleting and not owner.deleting:
                item = each.load()
                references = item["metadata"].get("ownerReferences") or []
                item["metadata"]["ownerReferences"] = [*references, self.reference(owner)]
                await self.update(each, item)
                kept += filter(None, [self.store.get(each.resource, each.key)])
        return kept

    def reference(self, owner: Record) -> Object:
        kind = self.kind(owner.resource)
        named = {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner.key[1], "uid": owner.uid}
        return named | {"controller": True, "blockOwnerDeletion": True}

    async def tell(self, about: Record, type_: str, reason: str, message: str, component: str) -> None:
        """Write an event, or count it up when it was told before."""
        kind = self.kind(about.resource)
        digest = hashlib.sha256(f"{about.uid}\0{reason}\0{message}".encode()).hexdigest()[:16]
        namespace, name = about.key[0] or "default", f"{about.key[1]}.{digest}"
        if (known := self.store.get("events", (namespace, name))) is not None:
            item = known.load()
            item["count"], item["lastTimestamp"] = item.get("count", 1) + 1, meta.now()
            await self.update(known, item)
            return
        subject = {"kind": kind.kind, "namespace": about.key[0], "name": about.key[1], "uid": about.uid}
        subject |= {"apiVersion": kind.api_version, "resourceVersion": str(about.version)}
        item = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {name: value for name, value in subject.items() if value},
            "type": type_,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": meta.now(),
            "lastTimestamp": meta.now(),
            "count": 1,
        }
        try:
            await self.create("events", item)
        except StatusError as error:
            log.debug("event not written: %s", error)


def _read(body: bytes) -> Object:
    found: Object = decode(body)
    return found


def controller(record: Record) -> str:
    """The uid of the owner that controls an object; empty when none does."""
    references = record.load()["metadata"].get("ownerReferences") or () if record.owners else ()
    return next((str(ref["uid"]) for ref in references if ref.get("controller")), "")


class Controller:
    """Looks after one resource. What is looked at is named by a key, as a rule that of an object."""

    resource = ""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.store = cluster, cluster.store

    def first(self) -> Iterable[Hashable]:
        """Where to look at the start."""
        return [record.key for record in self.store.select(self.resource)]

    def stirred(self, event: Event) -> Iterable[Hashable]:
        """Where to look after a change."""
        return [event.record.key] if event.record.resource == self.resource else ()

    async def look(self, key: Any) -> float | None:
        """Take a step. Gives the seconds after which to look again, whatever happens. Raises StatusError, Moved."""
        raise NotImplementedError


class Loop:
    """Looks for one controller, one key after another."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self._due: dict[Hashable, float] = {}
        self._refused: dict[Hashable, int] = {}
        self._bell = asyncio.Event()

    def add(self, keys: Iterable[Hashable], after: float = 0.0) -> None:
        due = asyncio.get_running_loop().time() + after
        for key in keys:
            self._due[key] = min(due, self._due.get(key, due))
            self._bell.set()

    async def run(self) -> None:
        """Never returns."""
        while True:
            now = asyncio.get_running_loop().time()
            ready = [key for key, due in self._due.items() if due <= now]
            self._bell.clear()
            for key in ready:
                del self._due[key]
                await self._look(key)
                await asyncio.sleep(0)
            if not ready:
                try:
                    async with asyncio.timeout_at(min(self._due.values(), default=None)):
                        await self._bell.wait()
                except TimeoutError:
                    pass

    async def _look(self, key: Hashable) -> None:
        name = type(self.controller).__name__
        try:
            again = await self.controller.look(key)
        except (StatusError, Moved) as error:
            # Somebody else was faster, mostly: the present state is another one by now.
            log.debug("%s %s: %s", name, key, error)
            again = self._pause(key)
        except Exception:
            # One object that somebody has written oddly must not stop what is done for all the others.
            log.exception("%s cannot deal with %s", name, key)
            again = self._pause(key)
        else:
            self._refused.pop(key, None)
        if again is not None:
            self.add([key], again)

    def _pause(self, key: Hashable) -> float:
        """Seconds until something that was refused is tried again: the longer, the more often it was."""
        count = self._refused[key] = self._refused.get(key, 0) + 1
        return min(FIRST_PAUSE * 2.0 ** min(count, 12), LONGEST_PAUSE)


def pods_of(event: Event) -> Iterable[tuple[str, str]]:
    """(namespace, uid) of what controls a pod that has changed, now or before."""
    if event.record.resource == "pods":
        for record in filter(None, (event.before, event.record)):
            for uid in record.owners:
                yield record.key[0], uid
