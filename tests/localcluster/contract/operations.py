"""Random operations on a handful of objects, and what two servers have to agree on about them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st

from tests.localcluster.contract.exchange import Answer, Exchange

Object = dict[str, Any]

APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"

CORE = ("ConfigMap", "Secret", "Pod", "Service")
PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
}
KINDS = tuple(PATHS)
WITH_STATUS = ("Pod", "Service", "Deployment", "Job", "Queue")
CUSTOM = ("Job", "PodGroup", "Queue")
CLUSTERED = ("Queue",)
"""Kinds without namespaces: their names begin with the world's, and a collection of them is not deleted."""
LAST = "zz-last"
NAMES = ("a", "b")


@dataclass(frozen=True)
class Operation:
    """`version`: which resourceVersion goes into the body, "" for none. `uid`: a precondition of a deletion."""

    method: str
    kind: str
    name: str = ""
    body: Any = None
    content: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    subresource: str = ""
    version: str = ""
    uid: str = ""


# --- bodies ---------------------------------------------------------------------------------------------------------

words = st.sampled_from(["", "x", "y", "long words with spaces"])
labels = st.dictionaries(st.sampled_from(["app", "tier", "example.com/k"]), st.sampled_from(["a", "b", ""]), max_size=2)
finalizers = st.lists(st.sampled_from(["example.com/one", "example.com/two"]), unique=True, max_size=2)
metadata = st.fixed_dictionaries({}, optional={"labels": labels, "annotations": labels, "finalizers": finalizers})
data = st.dictionaries(st.sampled_from(["a", "b", "c.txt"]), words, max_size=3)
encoded = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["eA==", "eQ==", ""]))
variables = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["A", "B"])}, optional={"value": st.sampled_from(["x", ""])}),
    unique_by=lambda each: each["name"], max_size=2,
)  # fmt: skip
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["one", "two"]), "image": st.sampled_from(["img:1", "img:2"])},
        optional={"env": variables, "command": st.sampled_from([["true"], []]), "tty": st.booleans()},
    ),
    unique_by=lambda each: each["name"], min_size=1, max_size=2,
)  # fmt: skip
pod_spec = st.fixed_dictionaries(
    {"containers": containers, "schedulerName": st.just("nobody"), "automountServiceAccountToken": st.just(False)},
    optional={
        "restartPolicy": st.sampled_from(["Never", "OnFailure"]),
        "activeDeadlineSeconds": st.sampled_from([10, 20]),
        "nodeSelector": labels,
        "hostname": st.sampled_from(["", "h"]),
        "hostNetwork": st.just(False),
        "tolerations": st.sampled_from([[], [{"key": "k", "operator": "Exists"}]]),
        "volumes": st.sampled_from([[], [{"name": "v", "emptyDir": {}}]]),
    },
)
template_spec = st.fixed_dictionaries({"containers": containers}, optional={"nodeSelector": labels})
ports = st.lists(
    st.fixed_dictionaries(
        {"port": st.sampled_from([80, 90]), "name": st.sampled_from(["web", "metrics"])},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "targetPort": st.sampled_from([80, "web"])},
    ),
    unique_by=(lambda each: each["port"], lambda each: each["name"]), min_size=1, max_size=2,
)  # fmt: skip
tasks = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["master", "worker"]), "replicas": st.sampled_from([0, 1, 2])},
        optional={"template": st.builds(lambda spec: {"spec": spec}, pod_spec)},
    ),
    unique_by=lambda each: each["name"], min_size=1, max_size=2,
)  # fmt: skip
FIELDS: dict[str, st.SearchStrategy[Object]] = {
    "ConfigMap": st.fixed_dictionaries({}, optional={"data": data, "immutable": st.booleans()}),
    "Secret": st.fixed_dictionaries(
        {}, optional={"data": encoded, "stringData": data, "type": st.sampled_from(["Opaque", "example", ""])}
    ),
    "Pod": st.fixed_dictionaries({"spec": pod_spec}),
    "Service": st.builds(
        lambda spec: {"spec": spec},
        st.fixed_dictionaries({"ports": ports}, optional={"clusterIP": st.just("None"), "selector": labels}),
    ),
    "Deployment": st.builds(
        lambda spec, pod: {"spec": spec | {"template": {"metadata": {"labels": {"app": "a"}}, "spec": pod}}},
        st.fixed_dictionaries(
            {"selector": st.just({"matchLabels": {"app": "a"}})},
            optional={
                "replicas": st.integers(0, 2),
                "paused": st.booleans(),
                "strategy": st.just({"type": "Recreate"}),
            },
        ),
        template_spec,
    ),
    "Job": st.builds(
        lambda spec: {"spec": spec},
        st.fixed_dictionaries(
            {},
            optional={"tasks": tasks, "minAvailable": st.integers(0, 1), "queue": words, "maxRetry": st.just(3)},
        ),
    ),
    "PodGroup": st.builds(
        lambda spec: {"spec": spec},
        st.fixed_dictionaries(
            {}, optional={"minMember": st.sampled_from([1, 2]), "queue": words, "minResources": st.just({"cpu": "1"})}
        ),
    ),
    "Queue": st.builds(
        lambda spec: {"spec": spec},
        st.fixed_dictionaries(
            {},
            optional={"weight": st.integers(0, 2), "capability": st.sampled_from([{}, {"cpu": 1}, {"cpu": "1"}])},
        ),
    ),
}
STATUS: dict[str, st.SearchStrategy[Object]] = {
    "Pod": st.fixed_dictionaries({}, optional={"phase": st.sampled_from(["Running", "Failed"]), "message": words}),
    "Service": st.just({"loadBalancer": {}}),
    "Deployment": st.fixed_dictionaries({}, optional={"replicas": st.just(2), "readyReplicas": st.integers(0, 2)}),
    "Queue": st.fixed_dictionaries({}, optional={"running": st.integers(0, 2), "state": words}),
    "Job": st.fixed_dictionaries({}, optional={"running": st.integers(0, 2), "state": st.just({"phase": "Running"})}),
}


def of(kind: str, name: str, fields: Object, more: Object) -> Object:
    group = "/".join(PATHS[kind].split("/")[2:4])
    return {
        "apiVersion": "v1" if kind in CORE else group,
        "kind": kind,
        **fields,
        "metadata": {"name": name, **more},
    }


# --- operations -----------------------------------------------------------------------------------------------------

names = st.sampled_from(NAMES)
versions = st.sampled_from(["", "newest", "oldest"])
managers = st.sampled_from(["m1", "m2", "m3"])


@st.composite
def bodies(draw: st.DrawFn, kinds: tuple[str, ...]) -> tuple[str, str, Object]:
    kind, name = draw(st.sampled_from(kinds)), draw(names)
    return kind, name, of(kind, name, draw(FIELDS[kind]), draw(metadata))


@st.composite
def slips(draw: st.DrawFn, body: Object) -> None:
    """Now and then a value of the wrong type."""
    if draw(st.integers(0, 15)) == 15:
        body["metadata"] |= draw(st.sampled_from([{"labels": {"app": 1}}, {"finalizers": "one"}, {"annotations": []}]))


@st.composite
def creates(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    kind, _, body = draw(bodies(kinds))
    draw(slips(body))
    return Operation("POST", kind, body=body, query=(("fieldManager", draw(managers)),))


@st.composite
def applies(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    kind, name, body = draw(bodies(kinds))
    if kind in CUSTOM:  # what they keep of an empty map depends on what was in it before
        body["metadata"] = {key: value for key, value in body["metadata"].items() if value}
    query = (("fieldManager", draw(managers)), *((("force", "true"),) if draw(st.booleans()) else ()))
    return Operation("PATCH", kind, name, body, APPLY, query)


@st.composite
def updates(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    kind, name, body = draw(bodies(kinds))
    draw(slips(body))
    return Operation("PUT", kind, name, body, query=(("fieldManager", draw(managers)),), version=draw(versions))


@st.composite
def patches(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    kind, name, body = draw(bodies(kinds))
    content = draw(st.sampled_from([MERGE, STRATEGIC]))
    changes = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    changes["metadata"] = {key: value for key, value in changes["metadata"].items() if key != "name"}
    for key in draw(st.lists(st.sampled_from(["labels", "annotations", "finalizers"]), unique=True, max_size=1)):
        changes["metadata"][key] = None
    query = (("fieldManager", draw(managers)),)
    return Operation("PATCH", kind, name, changes, content, query, version=draw(versions))


@st.composite
def json_patches(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    pointed = st.sampled_from(
        [
            ("/metadata/labels", {"app": "b"}), ("/metadata/labels/app", "a"), ("/metadata/finalizers/0", "example.com/one"),
            ("/metadata/finalizers/-", "example.com/two"), ("/data", {"a": "eA=="}), ("/data/a", "eQ=="), ("/nothing", 1),
            ("/spec/minAvailable", 1), ("/spec/containers/0/image", "img:2"), ("/spec/ports/0/port", 90),
            ("/metadata/finalizers", [1]), ("/metadata/labels/app", 1), ("/metadata/annotations", "x"), ("/data/a", []),
            ("/metadata/labels", {}), ("/data", {}), ("/spec/selector", {}), ("/spec/replicas", 0), ("/spec/weight", 0),
        ]
    )  # fmt: skip
    verbs = st.sampled_from(["add", "replace", "remove", "test"])
    one = st.builds(lambda op, at: {"op": op, "path": at[0], "value": at[1]}, verbs, pointed)
    body = draw(st.lists(one, min_size=1, max_size=2))
    return Operation(
        "PATCH", draw(st.sampled_from(kinds)), draw(names), body, JSON_PATCH, (("fieldManager", draw(managers)),)
    )


@st.composite
def statuses(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    kind = draw(st.sampled_from([kind for kind in kinds if kind in WITH_STATUS] or WITH_STATUS))
    name, status = draw(names), draw(STATUS[kind])
    body = {"metadata": draw(metadata), "status": status}
    return Operation("PATCH", kind, name, body, MERGE, (("fieldManager", draw(managers)),), "status")


@st.composite
def deletes(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    options: Object = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "propagationPolicy": st.sampled_from(["Background", "Foreground", "Orphan"]),
                "gracePeriodSeconds": st.sampled_from([0, 5]),
            },
        )
    )
    uid = draw(st.sampled_from(["", "", "its", "another"]))
    return Operation("DELETE", draw(st.sampled_from(kinds)), draw(names), options, uid=uid, version=draw(versions))


@st.composite
def clearings(draw: st.DrawFn, kinds: tuple[str, ...]) -> Operation:
    return Operation(
        "DELETE",
        draw(st.sampled_from([kind for kind in kinds if kind not in CLUSTERED] or ["ConfigMap"])),
        query=(("labelSelector", draw(st.sampled_from(["app=a", "app", "!app"]))),),
    )


@st.composite
def sequences(draw: st.DrawFn) -> list[Operation]:
    """Mostly about the same few objects, so that operations meet."""
    kinds = tuple(draw(st.lists(st.sampled_from(KINDS), unique=True, min_size=1, max_size=2)))
    frequent = st.one_of(creates(kinds), applies(kinds), patches(kinds), updates(kinds))
    rare = st.one_of(json_patches(kinds), statuses(kinds), deletes(kinds), clearings(kinds))
    return draw(st.lists(st.one_of(frequent, frequent, rare), min_size=6, max_size=24))


# --- carrying them out ----------------------------------------------------------------------------------------------


@dataclass
class World:
    """One namespace of one server, with the versions and uids that its objects have had."""

    exchange: Exchange
    namespace: str
    versions: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    uids: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = self.exchange.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        assert made.status == 201, made
        account = {"metadata": {"name": "default"}}
        made = self.exchange.ask("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts", account)
        assert made.status in (201, 409), made  # its controller may have been quicker

    def do(self, operation: Operation) -> Answer:
        name = self.named(operation.kind, operation.name) if operation.name else ""
        path = "/".join(filter(None, (self.path(operation.kind), name, operation.subresource)))
        request: Object = {"method": operation.method, "path": path, "query": dict(operation.query)}
        request["headers"] = {"Content-Type": operation.content}
        if operation.body is not None:
            request["body"] = self._body(operation)
        answer = self.exchange.send(request, patient=True)
        self._remember(answer.json)
        return answer

    def path(self, kind: str) -> str:
        return PATHS[kind].format(self.namespace)

    def named(self, kind: str, name: str) -> str:
        """The name of an object in its cluster."""
        return f"{self.namespace}-{name}" if kind in CLUSTERED else name

    def ours(self, item: Object) -> str:
        """The name of an object in this world, empty for one of another: a namespace has a ConfigMap of its own."""
        name: str = item["metadata"]["name"].removeprefix(f"{self.namespace}-")
        return name if name in (*NAMES, LAST) else ""

    def listed(self, kind: str) -> tuple[str, dict[str, Object]]:
        """The version of a list, and the objects of this world by name."""
        answer = self.exchange.ask("GET", self.path(kind))
        assert answer.status == 200, answer
        found = {self.ours(item): bare(item) for item in answer.json["items"] if self.ours(item)}
        return answer.json["metadata"]["resourceVersion"], found

    def _body(self, operation: Operation) -> Any:
        if operation.content == JSON_PATCH:
            return operation.body
        body = json.loads(json.dumps(operation.body))
        key = operation.kind, operation.name
        known = self.versions.get(key, ["1"])
        version = {"newest": known[-1], "oldest": known[0]}.get(operation.version)
        if operation.method == "DELETE":
            uid = {"its": self.uids.get(key, "none"), "another": "00000000-0000-0000-0000-000000000000"}
            conditions = {"resourceVersion": version, "uid": uid.get(operation.uid)}
            conditions = {name: value for name, value in conditions.items() if value}
            return body | ({"preconditions": conditions} if conditions else {})
        if version:
            body["metadata"]["resourceVersion"] = version
        if "name" in body["metadata"]:
            body["metadata"]["name"] = self.named(operation.kind, body["metadata"]["name"])
        return body

    def _remember(self, item: Any) -> None:
        if isinstance(item, dict) and "uid" in item.get("metadata", {}):
            key = item["kind"], self.ours(item)
            if self.uids.get(key) != item["metadata"]["uid"]:
                self.versions[key] = []
            self.uids[key] = item["metadata"]["uid"]
            self.versions[key].append(item["metadata"]["resourceVersion"])


# --- what counts ----------------------------------------------------------------------------------------------------

OWN = {"uid", "resourceVersion", "creationTimestamp", "time", "deletionTimestamp", "lastTransitionTime"}
"""Fields whose values are each server's own."""
UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+")
NUMBERS = re.compile(r"\d{2,}")


def plain(value: Any) -> Any:
    """A value without what is each server's own: times, uids, versions, and the order of owners, which times decide."""
    if isinstance(value, dict):
        value = {key: "<own>" if key in OWN else plain(each) for key, each in value.items()}
        if "managedFields" in value:
            value["managedFields"] = sorted(value["managedFields"], key=_in_order)
        return value
    if isinstance(value, list):
        return [plain(each) for each in value]
    return ADDRESS.sub("<address>", UID.sub("<uid>", value)) if isinstance(value, str) else value


_in_order = partial(json.dumps, sort_keys=True)


def comparable(answer: Answer) -> Object:
    """An answer without what is each server's own. Numbers in messages may be versions."""
    body = plain(answer.json)
    if "items" in body:
        body["items"] = [item for item in body["items"] if item["metadata"]["name"] in NAMES]
    if body["kind"] == "Status" and "message" in body:
        body["message"] = NUMBERS.sub("<n>", body["message"])
        if body.get("reason") == "Conflict" and "causes" in body["details"]:
            body["details"]["causes"].sort(key=_in_order)  # a real server shuffles them
        causes = {(cause["reason"], cause["field"]) for cause in body.get("details", {}).get("causes", ())}
        if body.get("details", {}).get("kind") == "Pod" or ("FieldValueInvalid", "patch") in causes:
            # A real server shows what would change of a pod, and all of an object that it cannot read.
            body = {key: body[key] for key in ("status", "reason", "code")} | {"causes": sorted(causes)}
    return {"status": answer.status, "body": body}


def bare(item: Object) -> Object:
    """Without its kind, which not every list tells of its items."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
