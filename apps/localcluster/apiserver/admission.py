"""Admission: what stands between a well-formed write and the store.

Built-in checks first (namespace, service account, priority), then the webhooks of Mutating- and
ValidatingWebhookConfigurations.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

from apps.localcluster.apiserver import addresses, escalation, limits, meta, podsecurity, workloads
from apps.localcluster.apiserver.definitions import DEFINITIONS
from apps.localcluster.apiserver.errors import StatusError, forbidden, invalid, not_found
from apps.localcluster.apiserver.kinds import Kind, Registry
from apps.localcluster.apiserver.quota import Quotas
from apps.localcluster.apiserver.rbac import Rbac
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]

DEFAULT_TOLERATION_SECONDS = 300
NOT_READY = "node.kubernetes.io/not-ready"


TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105
TOKEN_SOURCES: Object = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
            }
        },
    ],
    "defaultMode": 420,
}
GATED: Object = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


@dataclass
class Operation:
    """One write on its way: `name` CREATE, UPDATE, DELETE or CONNECT; hooks may replace `item`."""

    request: Request
    name: str
    item: Object
    old: Object | None
    warnings: list[str] = field(default_factory=list)


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
        if operation.name == "CREATE":
            self._kind_stays(operation)
            self._namespace_open(operation)
            if operation.request.kind.resource == "pods" and not operation.request.target.subresource:
                self._pod(operation)
                limits.fill(self.store, operation.request.namespace, operation.item)
            if operation.request.kind.resource == "nodes":
                _taint(operation.item)
            if operation.request.kind.resource == "jobs.batch":
                workloads.select_own_pods(operation.item)
            if operation.request.kind.resource == "persistentvolumeclaims":
                self._storage_class(operation.item)
        await self.hooks.mutate(operation)

    async def validate(self, operation: Operation) -> None:
        if operation.item:
            escalation.check(self.rights, operation.request, operation.item, operation.old)
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
        if request.kind.resource == "pods":
            namespace = self.store.get("namespaces", ("", request.namespace))
            labels = namespace.labels if namespace else {}
            if found := podsecurity.violation(labels, "enforce", item):
                raise forbidden(request.kind, item["metadata"]["name"], found.replace("violate", "violates", 1))
            if found := podsecurity.violation(labels, "warn", item):
                operation.warnings.append(f"would {found}")
        elif request.kind.resource in workloads.WITH_TEMPLATES:
            namespace = self.store.get("namespaces", ("", request.namespace))
            labels = namespace.labels if namespace else {}
            mode = "warn" if podsecurity.PREFIX + "warn" in labels else "enforce"
            if found := podsecurity.violation(labels, mode, item["spec"]["template"]):
                operation.warnings.append(f"would {found}")
        limits.check(self.store, request, item)
        self.quotas.check(request, item)

    def _kind_stays(self, operation: Operation) -> None:
        """Nothing is made of a custom kind whose definition is going."""
        kind = operation.request.kind
        record = self.store.get(DEFINITIONS, ("", kind.resource)) if kind.custom else None
        if record is not None and record.deleting:
            name = operation.item["metadata"].get("name", "")
            raise forbidden(kind, name, "create not allowed while custom resource definition is terminating")

    def _namespace_open(self, operation: Operation) -> None:
        """New objects need a namespace that is there and stays."""
        request = operation.request
        if not request.kind.namespaced:
            return
        record = self.store.get("namespaces", ("", request.namespace))
        if record is None:
            namespaces = self.registry.find("", "v1", "namespaces")
            assert namespaces is not None
            raise not_found(namespaces, request.namespace)
        if record.deleting:
            raise terminating(request.kind, operation.item["metadata"].get("name", ""), request.namespace)

    def _storage_class(self, claim: Object) -> None:
        """A claim that names no class gets the default one, if there is one."""
        if claim["spec"].get("storageClassName") is not None:
            return
        classes = [record.load()["metadata"] for record in self.store.select("storageclasses.storage.k8s.io")]
        default = "storageclass.kubernetes.io/is-default-class"
        chosen = [each["name"] for each in classes if each.get("annotations", {}).get(default) == "true"]
        if chosen:
            claim["spec"]["storageClassName"] = min(chosen)

    def _pod(self, operation: Operation) -> None:
        """Service account, priority and tolerations of a new pod."""
        pod, request = operation.item, operation.request
        spec = pod["spec"]
        account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        name = pod["metadata"].get("name", "")
        if self.store.get("serviceaccounts", (request.namespace, account)) is None:
            raise forbidden(
                request.kind,
                name,
                f'error looking up service account {request.namespace}/{account}: serviceaccount "{account}" not found',
            )
        spec["serviceAccountName"] = spec["serviceAccount"] = account
        self._token_volume(operation, account)
        if spec.get("schedulingGates"):
            pod["status"]["conditions"] = [dict(GATED, lastTransitionTime=meta.now())]
        self._priority(operation)
        tolerations = spec.setdefault("tolerations", [])
        for key in (NOT_READY, "node.kubernetes.io/unreachable"):
            if not any(
                (each.get("key") in (key, None, "") and each.get("operator") == "Exists") or each.get("key") == key
                for each in tolerations
            ):
                tolerations.append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
                    }
                )

    def _token_volume(self, operation: Operation, account: str) -> None:
        """Every container finds the account's token under the usual path, unless somebody does not want that."""
        spec, namespace = operation.item["spec"], operation.request.namespace
        record = self.store.get("serviceaccounts", (namespace, account))
        of_account = record.load().get("automountServiceAccountToken") if record else None
        wanted = spec.get("automountServiceAccountToken", of_account)
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        bare = [each for each in containers if not _mounts(each, TOKEN_PATH)]
        if wanted is False or not bare:
            return
        name = "kube-api-access-" + meta.suffix()
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": deepcopy(TOKEN_SOURCES)}]
        for container in bare:
            mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]

    def _priority(self, operation: Operation) -> None:
        spec = operation.item["spec"]
        name = spec.get("priorityClassName", "")
        if name:
            record = self.store.get("priorityclasses.scheduling.k8s.io", ("", name))
            if record is None:
                raise forbidden(
                    operation.request.kind,
                    operation.item["metadata"].get("name", ""),
                    f"no PriorityClass with name {name} was found",
                )
            chosen = record.load()
        else:
            records = self.store.select("priorityclasses.scheduling.k8s.io")
            defaults = [each for each in (record.load() for record in records) if each.get("globalDefault")]
            chosen = min(defaults, key=lambda each: each["value"], default={})
            if chosen:
                spec["priorityClassName"] = chosen["metadata"]["name"]
        priority = chosen.get("value", 0)
        if spec.get("priority", priority) != priority:
            raise forbidden(
                operation.request.kind,
                operation.item["metadata"].get("name", ""),
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
                f"admission controller computed {priority} from the given PriorityClass name",
            )
        spec["priority"] = priority
        spec.setdefault("preemptionPolicy", chosen.get("preemptionPolicy", "PreemptLowerPriority"))


def _taint(node: Object) -> None:
    """Nothing goes to a new node before it has said that it is ready."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if not any(each["key"] == NOT_READY and each.get("effect") == "NoSchedule" for each in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def _mounts(container: Object, path: str) -> bool:
    return any(mount.get("mountPath") == path for mount in container.get("volumeMounts") or ())


def terminating(kind: Kind, name: str, namespace: str) -> StatusError:
    """Refusal of a new object in a namespace that is going."""
    error = forbidden(
        kind, name, f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    assert error.details is not None
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    return error
