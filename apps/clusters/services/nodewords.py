"""Nodes in words for people: their state, what is the matter, conditions, taints, counts of a resource."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.clusters.domain.accelerators import Counts
from apps.clusters.domain.nodes import Condition, Problem, Taint
from apps.clusters.models import ClusterNode

Look = tuple[str, str, Promise]
"""Tone, icon and word."""

PROBLEMS: Mapping[str, Look] = {
    Problem.SILENT: ("red", "plug-connected-x", _("Silent")),
    Problem.NOT_READY: ("red", "alert-triangle", _("Not ready")),
    Problem.CONDITION: ("red", "alert-triangle", _("Ill")),
    Problem.DEVICES: ("red", "alert-triangle", _("Devices missing")),
    Problem.CORDONED: ("amber", "lock", _("Cordoned")),
    Problem.TAINTED: ("amber", "barrier-block", _("Kept back")),
    Problem.OLD_DRIVER: ("amber", "alert-triangle", _("Old driver")),
}
IDLE: Look = ("outline", "check", _("Idle"))
BUSY: Look = ("green", "player-play", _("In use"))
FULL: Look = ("blue", "square-check", _("Full"))
PLAIN: Look = ("green", "check", _("Ready"))

SENTENCES: Mapping[str, Promise] = {
    Problem.SILENT: _("Its kubelet does not answer. Pods on it are given up after some minutes; look at the machine."),
    Problem.NOT_READY: _("Its kubelet says that it cannot run pods. The conditions below say why."),
    Problem.CONDITION: _("It reports a condition that hurts what runs on it; see below."),
    Problem.DEVICES: _("It offers fewer accelerators than the machine has: look at the device plugin and the driver."),
    Problem.CORDONED: _("Somebody cordoned it: what runs goes on, nothing new begins here."),
    Problem.TAINTED: _("A taint keeps away everything that does not tolerate it; work of the portal does not."),
    Problem.OLD_DRIVER: _("Its driver is older than its accelerators' images need."),
}

CONDITIONS: Mapping[tuple[str, str], Promise] = {
    ("Ready", "True"): _("It runs pods."),
    ("Ready", "False"): _("It cannot run pods."),
    ("Ready", "Unknown"): _("Its kubelet has not been heard of."),
    ("MemoryPressure", "True"): _("It is short of memory and evicts pods."),
    ("MemoryPressure", "False"): _("It has memory enough."),
    ("DiskPressure", "True"): _("It is short of disk: images and pods are removed."),
    ("DiskPressure", "False"): _("It has disk enough."),
    ("PIDPressure", "True"): _("It runs too many processes."),
    ("PIDPressure", "False"): _("It has room for processes."),
    ("NetworkUnavailable", "True"): _("Its network is not set up."),
    ("NetworkUnavailable", "False"): _("Its network is set up."),
}

EVENTS: Mapping[str, Promise] = {
    "NodeReady": _("It became ready"),
    "NodeNotReady": _("It stopped being ready"),
    "NodeSchedulable": _("It was uncordoned"),
    "NodeNotSchedulable": _("It was cordoned"),
    "Rebooted": _("It was started anew"),
    "Starting": _("Its kubelet started"),
    "RegisteredNode": _("It came into the cluster"),
    "RemovingNode": _("It is being taken out of the cluster"),
    "NodeHasSufficientMemory": _("It has memory enough again"),
    "NodeHasInsufficientMemory": _("It is short of memory"),
    "NodeHasNoDiskPressure": _("It has disk enough again"),
    "NodeHasDiskPressure": _("It is short of disk"),
    "NodeHasSufficientPID": _("It has room for processes again"),
    "NodeHasInsufficientPID": _("It runs too many processes"),
    "EvictionThresholdMet": _("It begins to evict pods"),
    "SystemOOM": _("A process was killed for want of memory"),
    "OOMKilling": _("A process was killed for want of memory"),
    "FreeDiskSpaceFailed": _("It could not free disk"),
    "ImageGCFailed": _("It could not remove old images"),
    "InvalidDiskCapacity": _("It could not read the size of its disk"),
    "ContainerGCFailed": _("It could not remove ended containers"),
    "TaskHung": _("A process hangs in the kernel"),
    "KernelOops": _("The kernel reported a fault"),
}

EFFECTS: Mapping[str, Promise] = {
    "NoSchedule": _("keeps away pods that do not tolerate it"),
    "NoExecute": _("keeps away, and puts out, pods that do not tolerate it"),
    "PreferNoSchedule": _("is avoided where there is another node"),
}

COUNTS: Mapping[str, Promise] = {
    Counts.DEVICE: _("whole device"),
    Counts.SLICE: _("slice of a device"),
    Counts.SHARE: _("share of a device"),
    Counts.MEBIBYTES: _("memory of a device, in MiB"),
    Counts.PERCENT: _("time or memory of a device, in percent"),
}

STATES: Mapping[str, Promise] = {
    "idle": _("Idle"),
    "pieces": _("In pieces"),
    "full": _("Full"),
    "ill": _("Ill"),
    "kept-back": _("Cordoned or kept back"),
}


def look_of(node: ClusterNode) -> Look:
    """Its state: what is the matter with it, else how full it is."""
    if node.problem in PROBLEMS:
        return PROBLEMS[node.problem]
    if not node.total:
        return PLAIN
    return IDLE if not node.used else FULL if node.used >= node.total else BUSY


NUMA: Mapping[str, Promise] = {
    "single-numa-node": _("What a pod gets lies in one NUMA node, or it is refused"),
    "restricted": _("What a pod gets lies in as few NUMA nodes as it can, or it is refused"),
    "best-effort": _("What a pod gets lies in one NUMA node where that can be"),
}
"""What the kubelet's topology manager does, by its policy."""


def numa(cpu_policy: str, placing_policy: str) -> Promise:
    """What the kubelet heeds of NUMA nodes when it places a pod."""
    if cpu_policy == "static":
        return NUMA.get(placing_policy, _("Pods get whole cores, wherever these lie"))
    return _("Cores are shared, so pods are not kept to a NUMA node")


def condition(one: Condition) -> str:
    """A condition as a sentence; of types nobody has words for, as they say it themselves."""
    if known := CONDITIONS.get((one.type, one.status)):
        return str(known)
    if one.status == "Unknown":
        return gettext("Nothing is known of it.")
    said = one.message or one.reason
    if one.is_bad:
        return said or gettext("It is not as it should be.")
    return said or gettext("All is well.")


def taint(one: Taint) -> str:
    return str(EFFECTS.get(one.effect, one.effect))
