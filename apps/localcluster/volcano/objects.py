"""Names, paths and small readers shared by the controllers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

JOBS = "/apis/batch.volcano.sh/v1alpha1"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
BUS = "/apis/bus.volcano.sh/v1alpha1"
TOPOLOGY = "/apis/topology.volcano.sh/v1alpha1"
CORE = "/api/v1"
NETWORKING = "/apis/networking.k8s.io/v1"

JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
QUEUE_NAME = "volcano.sh/queue-name"
TASK_SPEC = "volcano.sh/task-spec"
TASK_INDEX = "volcano.sh/task-index"
TEMPLATE_UID = "volcano.sh/template-uid"
OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
GROUP_NAME = "scheduling.k8s.io/group-name"
POD_QUEUE = "scheduling.volcano.sh/queue-name"
PREEMPTABLE = "volcano.sh/preemptable"

CONTROLLER, SCHEDULER = "vc-controller-manager", "volcano"


def path(group: str, plural: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    parts = [group, *(("namespaces", namespace) if namespace else ()), plural, name, subresource]
    return "/".join(part for part in parts if part)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str) -> datetime:
    """A timestamp of the API. Raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def meta(item: Object) -> Object:
    return item["metadata"]  # type: ignore[no-any-return]


def namespace(item: Object) -> str:
    return str(meta(item).get("namespace", ""))


def name(item: Object) -> str:
    return str(meta(item)["name"])


def uid(item: Object) -> str:
    return str(meta(item)["uid"])


def annotation(item: Object, key: str) -> str | None:
    return (meta(item).get("annotations") or {}).get(key)


def deleting(item: Object) -> bool:
    return bool(meta(item).get("deletionTimestamp"))


def pod_phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def controller_of(item: Object) -> Object | None:
    return next((owner for owner in meta(item).get("ownerReferences") or [] if owner.get("controller")), None)


def owned_by(owner: Object) -> list[Object]:
    """The owner references of what a controller makes for an object."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": name(owner),
            "uid": uid(owner),
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def group_name(job: Object) -> str:
    """The name of a Job's PodGroup."""
    return f"{name(job)}-{uid(job)}"


def pod_name(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def tasks(job: Object) -> list[Object]:
    return list(job["spec"].get("tasks") or [])


def replicas(task: Object) -> int:
    return int(task.get("replicas") or 0)


def minimum(task: Object) -> int:
    """A task's minAvailable; all its replicas if it names none."""
    given = task.get("minAvailable")
    return replicas(task) if given is None else int(given)
