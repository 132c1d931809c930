"""What is checked of a cluster before it is used, and what may be installed in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

PASSED, FAILED, WARNED, ABSENT = "passed", "failed", "warned", "absent"

NEEDED = ("token", "reach", "identity", "same", "rights", "bounds", "volcano")
"""The checks that must not fail, in the order in which they are made."""
WARN_DAYS = (14, 3)
"""So many days before a credential is over, operators are told."""
FLOORS = {"kubernetes": (1, 28), "volcano": (1, 15)}
"""The oldest versions that the portal is tried against."""


@dataclass(frozen=True)
class Check:
    """One finding. `code` names a sentence for the state, with `params`; `text` is the cluster's own words."""

    key: str
    state: str
    code: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    def to_row(self) -> dict[str, Any]:
        return {"key": self.key, "state": self.state, "code": self.code, "params": dict(self.params), "text": self.text}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Check:
        return cls(row["key"], row["state"], row["code"], row["params"], row["text"])


@dataclass(frozen=True)
class Extra:
    """Something that may be installed: any of `apis` says that it is, its deployments how it does."""

    apis: tuple[str, ...]
    deployments: tuple[str, ...] = ()


VOLCANO_APIS = ("batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1", "bus.volcano.sh/v1alpha1")
"""All of them are needed."""
VOLCANO_DEPLOYMENTS = ("volcano-scheduler", "volcano-controllers", "volcano-admission")
EXTRAS: Mapping[str, Extra] = {
    "hypernodes": Extra(("topology.volcano.sh/v1alpha1",)),
    "numa": Extra(("nodeinfo.volcano.sh/v1alpha1",)),
    "kuberay": Extra(("ray.io/v1", "ray.io/v1alpha1"), ("kuberay-operator",)),
    "mpi": Extra(("kubeflow.org/v2beta1",), ("mpi-operator",)),
    "istio": Extra(("networking.istio.io/v1", "networking.istio.io/v1beta1"), ("istiod",)),
    "gateway": Extra(("gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1")),
    "prometheus": Extra(
        ("monitoring.coreos.com/v1",),
        ("prometheus-operator", "kube-prometheus-stack-operator", "kube-prometheus-operator"),
    ),
    "gpu-operator": Extra(("nvidia.com/v1",), ("gpu-operator",)),
}


DAEMONS: Mapping[str, tuple[str, ...]] = {
    "devices": ("*device-plugin*", "*mig-manager*", "*container-toolkit*", "*driver-daemonset*", "*dra-driver*"),
    "telling": ("*dcgm*", "*gpu-feature-discovery*", "*feature-discovery*", "*npu-exporter*", "*node-exporter*",
                "*device-metrics-exporter*"),
    "network": ("calico-node", "cilium", "kube-flannel*", "kube-ovn-*", "ovs-ovn*", "antrea-agent", "weave-net",
                "*multus*", "*sriov*", "*rdma*", "kube-proxy"),
}  # fmt: skip
"""DaemonSets that every node's work depends on, by what they do and by their usual names."""


def daemon_of(name: str) -> str:
    """What a DaemonSet of this name does; "" where nobody knows."""
    return next((key for key, known in DAEMONS.items() if any(fnmatchcase(name, one) for one in known)), "")


@dataclass(frozen=True)
class Operator:
    """A deployment or DaemonSet that keeps part of the cluster going; `version` is its image's tag, "" where that is
    none."""

    key: str
    name: str
    namespace: str
    ready: int
    desired: int
    version: str = ""
    kind: str = "Deployment"

    @property
    def is_well(self) -> bool:
        return self.ready >= self.desired > 0

    def to_row(self) -> dict[str, Any]:
        return dict(vars(self))


def passes(checks: Iterable[Check]) -> bool:
    """Whether a cluster with these findings may be used: every needed check was made, and none failed."""
    states = {check.key: check.state for check in checks}
    return all(states.get(key) in (PASSED, WARNED) for key in NEEDED)


def is_rejected(checks: Iterable[Check]) -> bool:
    """Whether the cluster answers, but does not take the token."""
    return any((check.key, check.state, check.code) == ("identity", FAILED, "refused") for check in checks)


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor of `v1.36.1`, `1.15.0-rc1`; None for a text that begins otherwise."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None


def is_old(what: str, text: str) -> bool:
    """Whether a version is below the floor; one that cannot be read is not."""
    version = version_of(text)
    return version is not None and version < FLOORS[what]


def days_left(expires: datetime, now: datetime) -> int:
    """Whole days until then; negative once it is over."""
    return (expires - now) // timedelta(days=1)


def due_warning(expires: datetime | None, now: datetime) -> int | None:
    """The nearest of WARN_DAYS that has been reached, 0 once the credential is over, None before any."""
    if expires is None:
        return None
    left = expires - now
    if left <= timedelta():
        return 0
    reached = [days for days in WARN_DAYS if left <= timedelta(days=days)]
    return min(reached, default=None)
