"""Admission: what stands between a well-formed write and the store.

Built-in checks first (namespace, service account, priority), then the webhooks of Mutating- and
ValidatingWebhookConfigurations.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import yaml

from apps.localcluster.apiserver import addresses, limits, meta, pods, podsecurity, workloads
from apps.localcluster.apiserver.definitions import DEFINITIONS
from apps.localcluster.apiserver.errors import StatusError, forbidden, invalid, not_found
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.quota import Quotas
from apps.localcluster.apiserver.rbac import Rbac, check_escalation
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

DEFAULT_TOLERATION_SECONDS = 300
NOT_READY = "node.kubernetes.io/not-ready"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
GIVEN: Object = yaml.load(Path(__file__).with_name("newpods.yaml").read_text(), Loader=yaml.CSafeLoader)


@dataclass
class Operation:
    """One write on its way: `name` CREATE, UPDATE, DELETE or CONNECT; hooks may replace `item`."""

    request: Request
    name: str
    item: Object
    old: Object | None
    warnings: list[str] = field(default_factory=list)

    def refusal(self, why: str) -> StatusError:
        return forbidden(self.request.kind, self.item["metadata"].get("name", ""), why)


class Hooks(Protocol):
    """The webhooks of the cluster."""

    async def mutate(self, operation: Operation) -> None: ...

    async def validate(self, operation: Operation) -> None: ...


class Admission:
    """Runs every admission step of a write."""

    def __init__(self, store: Store, registry: Registry, hooks: Hooks, rights: Rbac) -> None:
        self.store, self.registry, self.hooks, self.rights = store, registry, hooks, rights
        self.quotas = Quotas(store)

    async def may_create(self, request: Request) -> None:
        """An apply of something new needs the right to create."""
        self.rights.check(request, "create")

    async def mutate(self, operation: Operation) -> None:
        request, item = operation.request, operation.item
        if request.kind.resource == "pods" and not request.target.subresource:
            _tolerate(item["spec"])
        if operation.name == "CREATE":
            self._place_open(operation)
            if request.kind.resource == "pods" and not request.target.subresource:
                self._pod(operation)
                limits.fill(self.store, request.namespace, item)
            elif request.kind.resource == "nodes":
                _taint(item)
            elif request.kind.resource == "jobs.batch":
                workloads.select_own_pods(item)
            elif request.kind.resource == "persistentvolumeclaims":
                self._storage_class(item)
        await self.hooks.mutate(operation)

    async def validate(self, operation: Operation) -> None:
        if operation.item:
            check_escalation(self.rights, operation.request, operation.item, operation.old)
        await self.hooks.validate(operation)
        if operation.name == "CREATE" and not operation.request.target.subresource:
            self._bounds(operation)
        elif operation.name == "UPDATE" and operation.request.kind.resource == "namespaces" and operation.old:
            operation.warnings += podsecurity.new_level_warnings(self.store, operation.old, operation.item)

    def _bounds(self, operation: Operation) -> None:
        """What a namespace allows of new objects. Nothing may wait between the count of a quota and the write."""
        request, item = operation.request, operation.item
        if request.kind.resource == "services" and (causes := addresses.give(self.store, item)):
            raise invalid(request.kind, item["metadata"]["name"], causes)
        if request.kind.resource == "pods" or request.kind.resource in workloads.WITH_TEMPLATES:
            self._security(operation)
        place = (request.kind.resource, request.namespace, item)
        if fault := limits.fault(self.store, *place) or self.quotas.fault(*place):
            raise operation.refusal(fault)

    def _security(self, operation: Operation) -> None:
        namespace = self.store.get("namespaces", ("", operation.request.namespace))
        labels = namespace.labels if namespace else {}
        if operation.request.kind.resource == "pods":
            pod, mode = operation.item, "warn"
            if found := podsecurity.violation(labels, "enforce", pod):
                raise operation.refusal(found.replace("violate", "violates", 1))
        else:
            pod = operation.item["spec"]["template"]
            mode = "warn" if podsecurity.PREFIX + "warn" in labels else "enforce"
        if found := podsecurity.violation(labels, mode, pod):
            operation.warnings.append(f"would {found}")

    def _place_open(self, operation: Operation) -> None:
        """New objects need a namespace, and those of a custom kind a definition, that is there and stays."""
        request = operation.request
        definition = self.store.get(DEFINITIONS, ("", request.kind.resource)) if request.kind.custom else None
        if definition is not None and definition.deleting:
            raise operation.refusal("create not allowed while custom resource definition is terminating")
        if not request.kind.namespaced:
            return
        namespace = self.store.get("namespaces", ("", request.namespace))
        if namespace is None:
            namespaces = self.registry.find("", "v1", "namespaces")
            assert namespaces is not None
            raise not_found(namespaces, request.namespace)
        if namespace.deleting:
            told = f"namespace {request.namespace} is being terminated"
            error = operation.refusal(
                f"unable to create new content in namespace {request.namespace} because it is being terminated"
            )
            cause = {"reason": "NamespaceTerminating", "message": told, "field": "metadata.namespace"}
            error.details = (error.details or {}) | {"causes": [cause]}
            raise error

    def _storage_class(self, claim: Object) -> None:
        """A claim that names no class gets the default one, if there is one."""
        if claim["spec"].get("storageClassName") is None:
            classes = [record.load()["metadata"] for record in self.store.select("storageclasses.storage.k8s.io")]
            chosen = [each["name"] for each in classes if each.get("annotations", {}).get(DEFAULT_CLASS) == "true"]
            claim["spec"] |= {"storageClassName": min(chosen)} if chosen else {}

    def _pod(self, operation: Operation) -> None:
        """Service account, gates and priority of a new pod."""
        spec, namespace = operation.item["spec"], operation.request.namespace
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        account = self.store.get("serviceaccounts", (namespace, name))
        if account is None:
            told = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise operation.refusal(told)
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        if spec.get("automountServiceAccountToken", account.load().get("automountServiceAccountToken")) is not False:
            _mount_token(spec)
        if spec.get("schedulingGates"):
            status = operation.item.setdefault("status", {})
            status["conditions"] = [dict(GIVEN["gated"], lastTransitionTime=meta.now())]
        self._priority(operation)

    def _priority(self, operation: Operation) -> None:
        spec = operation.item["spec"]
        classes = [record.load() for record in self.store.select("priorityclasses.scheduling.k8s.io")]
        if name := spec.get("priorityClassName", ""):
            chosen = next((each for each in classes if each["metadata"]["name"] == name), {})
            if not chosen:
                raise operation.refusal(f"no PriorityClass with name {name} was found")
        else:
            defaults = (each for each in classes if each.get("globalDefault"))
            chosen = min(defaults, key=lambda each: each["value"], default={})
            spec |= {"priorityClassName": chosen["metadata"]["name"]} if chosen else {}
        priority = chosen.get("value", 0)
        if spec.get("priority", priority) != priority:
            raise operation.refusal(
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
                f"admission controller computed {priority} from the given PriorityClass name"
            )
        spec["priority"] = priority
        spec.setdefault("preemptionPolicy", chosen.get("preemptionPolicy", "PreemptLowerPriority"))


def _tolerate(spec: Object) -> None:
    """A pod bears a node that is not ready for a while, unless it says otherwise; an update may not take that away."""
    own = spec.setdefault("tolerations", [])
    said = {each.get("key") for each in own} | {None for each in own if not each.get("key")}
    if None not in said:
        own += [dict(each) for each in GIVEN["tolerations"] if each["key"] not in said]


def _taint(node: Object) -> None:
    """Nothing goes to a new node before it has said that it is ready."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if not any(each["key"] == NOT_READY and each.get("effect") == "NoSchedule" for each in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def _mount_token(spec: Object) -> None:
    """Every container finds its account's token under the usual path."""
    mounts = [(each, each.get("volumeMounts") or []) for each in pods.containers(spec)]
    bare = [(each, own) for each, own in mounts if not any(mount.get("mountPath") == TOKEN_PATH for mount in own)]
    if bare:
        name = "kube-api-access-" + meta.suffix()
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": deepcopy(GIVEN["token"])}]
        for container, own in bare:
            container["volumeMounts"] = [*own, {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}]
