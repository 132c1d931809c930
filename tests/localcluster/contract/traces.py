"""What a case leaves behind, and taking it away: other cases, and the cluster's owner, find it as it was."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.localcluster.contract.cases import Case, namespaces, pointed, steps, target
from tests.localcluster.contract.exchange import Exchange

MERGE = "application/merge-patch+json"
GONE_SECONDS = 60.0
WITHOUT_FINALIZERS = {"metadata": {"finalizers": None}}


class Traces:
    def __init__(self, exchange: Exchange, case: Case) -> None:
        self.exchange, self.case = exchange, case
        self.own = namespaces(case)
        self.before: dict[str, Any] = {}
        """Objects outside its own namespaces as they were, by path; None where there was none."""

    def prepare(self) -> None:
        """Takes away what an earlier run left."""
        for namespace in self.own:
            if self.exchange.ask("GET", f"/api/v1/namespaces/{namespace}").status == 200:
                self._remove_namespace(namespace, wait=True)

    def about_to(self, step: dict[str, Any]) -> None:
        """Remembers what this write may change."""
        namespace, path = target(step)
        if step["method"] == "GET" or path is None or namespace in self.own or path in self.before:
            return
        if path.removeprefix("/api/v1/namespaces/") in self.own:
            return
        found = self.exchange.ask("GET", path)
        self.before[path] = found.json if found.status == 200 else None

    def undo(self) -> None:
        # First what is in namespaces: a definition stays as long as there are objects of its kind.
        for namespace in self.own:
            self._remove_namespace(namespace, wait=False)
        for path, was in reversed(self.before.items()):
            if was is None:
                self._remove(path)
            else:
                self._put_back(path, was)

    def _remove(self, path: str) -> None:
        if self.exchange.ask("GET", path).status != 200:
            return
        self.exchange.ask("DELETE", path)
        if not self._gone(path, 5):
            self.exchange.ask("PATCH", path, WITHOUT_FINALIZERS, MERGE)
            self._gone(path, 10)

    def _put_back(self, path: str, was: Any) -> None:
        for _ in range(5):  # the object's own controllers write it too
            now = self.exchange.ask("GET", path)
            kept = {key: value for key, value in was["metadata"].items() if key != "managedFields"}
            if now.status == 404:
                kept = {key: kept[key] for key in kept.keys() - {"resourceVersion", "uid", "creationTimestamp"}}
                answer = self.exchange.ask("POST", path.rsplit("/", 1)[0], was | {"metadata": kept})
            else:
                kept["resourceVersion"] = pointed(now.json, "/metadata/resourceVersion")
                answer = self.exchange.ask("PUT", path, was | {"metadata": kept})
            if answer.status < 300:
                return

    def _remove_namespace(self, namespace: str, *, wait: bool) -> None:
        path = f"/api/v1/namespaces/{namespace}"
        self.exchange.ask("DELETE", path)
        stuck = "finalizers" in str(self.case) or self.case["id"][:2] in ("09", "12")
        deadline = time.monotonic() + GONE_SECONDS
        while wait or stuck:
            if stuck:
                self._free(namespace)
            if not wait or self._gone(path, 1):
                return
            assert time.monotonic() < deadline, f"namespace {namespace} does not go away"
            stuck = True

    def _free(self, namespace: str) -> None:
        """Takes away what keeps a namespace from going: finalizers, and pods whose node says nothing."""
        path = f"/api/v1/namespaces/{namespace}"
        if pointed(self.exchange.ask("GET", path).json, "/metadata/finalizers"):
            self.exchange.ask("PATCH", path, WITHOUT_FINALIZERS, MERGE)
        written = [object_path for step in steps(self.case) if (object_path := self._inside(step, namespace))]
        for collection in dict.fromkeys([*written, f"{path}/pods"]):
            for item in pointed(self.exchange.ask("GET", collection).json, "/items") or []:
                each = f"{collection}/{item['metadata']['name']}"
                if item["metadata"].get("finalizers"):
                    self.exchange.ask("PATCH", each, WITHOUT_FINALIZERS, MERGE)
                if collection.endswith("/pods"):
                    self.exchange.ask("DELETE", each, {"gracePeriodSeconds": 0})

    def _inside(self, step: dict[str, Any], namespace: str) -> str | None:
        """The collection in that namespace which a step is about."""
        where, path = target(step)
        return path.rsplit("/", 1)[0] if path and where == namespace else None

    def _gone(self, path: str, seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, threading.Event()
        while self.exchange.ask("GET", path).status != 404:
            if time.monotonic() > deadline:
                return False
            pause.wait(0.2)
        return True
