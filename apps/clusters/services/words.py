"""Findings, faults and profiles in words for people."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.clusters.domain import kubeconfig, profile
from apps.clusters.domain.checks import ABSENT, FAILED, NEEDED, PASSED, WARNED, Check
from apps.clusters.models import Cluster

Look = tuple[str, str, Promise]
"""Tone, icon and word of a state."""

TITLES: Mapping[str, Promise] = {
    "token": _("Token"),
    "reach": _("API server"),
    "identity": _("Account"),
    "same": _("Which cluster"),
    "rights": _("Rights it needs"),
    "bounds": _("Rights it must not have"),
    "volcano": _("Volcano"),
    "hypernodes": _("HyperNodes"),
    "numa": _("NUMA topology"),
    "kuberay": _("KubeRay"),
    "mpi": _("MPI Operator"),
    "istio": _("Istio"),
    "gateway": _("Gateway API"),
    "prometheus": _("Prometheus Operator"),
    "gpu-operator": _("GPU Operator"),
}

STATES: Mapping[str, Look] = {
    PASSED: ("green", "check", _("Good")),
    WARNED: ("amber", "alert-triangle", _("Look at it")),
    FAILED: ("red", "x", _("Failed")),
    ABSENT: ("grey", "circle-minus", _("Not installed")),
}

SENTENCES: Mapping[tuple[str, str], Promise] = {
    ("token", "gone"): _("There is no token at its place in the secrets server. Enter one."),
    ("token", "endless"): _("It says no day on which it is over. A token with an end is safer: kubectl create token."),
    ("token", "over"): _("It was over on {date}. Make a new one with kubectl create token, and enter it."),
    ("token", "until"): _("Good until {date}."),
    ("reach", "version"): _("It answers, with Kubernetes {version}."),
    ("reach", "old"): _("It answers, with Kubernetes {version}; upgrade it to 1.28 or later."),
    ("reach", "answers"): _("It answers."),
    ("reach", "tls"): _(
        "Its certificate is not signed by the authority that was given, or is made out to another name. Compare the"
        " authority and the address with those of a kubeconfig that works."
    ),
    ("reach", "silent"): _(
        "It does not answer. Compare the address; firewalls must let the portal's workers through to it."
    ),
    ("identity", "refused"): _(
        "The cluster does not accept this token: it is cut off, over, or of another cluster. Make a new one with"
        " kubectl create token, and enter it."
    ),
    ("identity", "known"): _("The portal is {account} there."),
    ("identity", "untold"): _("It is accepted; before Kubernetes 1.28 the cluster does not say as whom."),
    ("same", "new"): _("It is not registered under another name."),
    ("same", "same"): _("It is the cluster it was before."),
    ("same", "untold"): _("The cluster has no kube-system by which it could be told from others."),
    ("same", "another"): _("Another cluster answers at this address. Add that one under a name of its own."),
    ("same", "twice"): _("This cluster is registered as {name}. Use that one, or remove it first."),
    ("rights", "all"): _("All {count} of them are given."),
    ("rights", "missing"): _("Missing: {rights}. Apply deploy/cluster/portal.yaml there, then check again."),
    ("bounds", "narrow"): _("None of them is given."),
    ("bounds", "secrets"): _(
        "It may read every Secret of the cluster, which the portal does not need. Use the account of"
        " deploy/cluster/portal.yaml instead."
    ),
    ("bounds", "everything"): _(
        "It may do everything, as a cluster's administrator. Whoever came by it would have the whole cluster: use the"
        " account of deploy/cluster/portal.yaml instead."
    ),
    ("bounds", "impersonate"): _(
        "It may act as anybody ({right}). Use the account of deploy/cluster/portal.yaml instead."
    ),
    ("bounds", "escalate"): _(
        "It may give itself any right ({right}). Use the account of deploy/cluster/portal.yaml instead."
    ),
    ("volcano", "absent"): _("Jobs are put together by Volcano, which is not there: {apis}. Install Volcano 1.15."),
    ("volcano", "old"): _("Version {version}; the portal is tried against 1.15 and later. Upgrade it."),
    ("hypernodes", "absent"): _("Nodes near each other are not told apart, so gangs are placed without regard to it."),
    ("numa", "absent"): _("How the cores of a node lie is not told; Volcano's resource exporter would."),
    ("kuberay", "absent"): _("Needed for Ray clusters only."),
    ("mpi", "absent"): _("Needed for MPIJobs only; Volcano starts MPI jobs without it."),
    ("istio", "absent"): _("The portal's own gateway leads to deployed models, so it is not needed."),
    ("gateway", "absent"): _("The portal's own gateway leads to deployed models, so it is not needed."),
    ("prometheus", "absent"): _("Figures of pods and nodes are not collected in the cluster."),
    ("gpu-operator", "absent"): _("Drivers and device plugins are looked after in another way."),
}
_COMMON: Mapping[str, Promise] = {
    "version": _("Installed, version {version}."),
    "there": _("Installed; its version is not told."),
    "unanswered": _("The cluster did not answer this question. Check again in a moment."),
}


def check_text(check: Check) -> str:
    """What was found and what to do next, in the reader's language."""
    text = SENTENCES.get((check.key, check.code)) or _COMMON[check.code]
    return str(text).format_map(check.params)


def is_needed(key: str) -> bool:
    return key in NEEDED


def look_of(cluster: Cluster) -> Look:
    """How a cluster stands, in one word: the worst first."""
    if cluster.state == Cluster.State.NEW:
        return "blue", "loader-2", _("Not ready yet")
    if cluster.is_expired:
        return "red", "key-off", _("Credential is over")
    if cluster.is_rejected:
        return "red", "key-off", _("Credential is rejected")
    if cluster.unreachable_since:
        return "red", "plug-connected-x", pgettext_lazy("of a cluster", "Down")
    if cluster.maintenance_since:
        return "violet", "tool", _("In maintenance")
    if not cluster.is_sound:
        return "amber", "alert-triangle", _("Needs a look")
    if cluster.seen_at is None:
        return "grey", "help-circle", _("Not seen yet")
    return "green", "check", pgettext_lazy("of a cluster", "Up")


KUBECONFIG: Mapping[str, Promise] = {
    "too-large": _("A kubeconfig has at most {maximum} KiB here. Leave the contexts out that are not needed."),
    "yaml": _("Line {line} is not YAML. Copy the whole file, with its spaces."),
    "kind": _("This is no kubeconfig: it has no clusters, users and contexts."),
    "empty": _("The file has no context. Write one with kubectl config view --minify --flatten --raw."),
    "context": _("Name one of its contexts: {contexts}."),
    "dangling": _("The context {context} names a cluster or a user that is not in the file."),
    "insecure": _("It turns off the check of the server's certificate ({key}). Give the authority that signed it."),
    "ca-file": _(
        "It names a file of your machine ({key}). Write it with kubectl config view --minify --flatten --raw."
    ),
    "ca-data": _("The certificate authority in it is not Base64 of a certificate in PEM form."),
    "proxy": _("It goes through a proxy ({key}), which the portal does not. Give an address that it reaches."),
    "server-name": _("It expects another name in the certificate ({key}). Give the address that the certificate has."),
    "exec": _("It starts a program to sign in ({key}), which the portal never does. Give a service account's token."),
    "token-file": _("It names a file of your machine ({key}). Give the token itself."),
    "certificate": _(
        "It signs in with a certificate ({key}), which cannot be taken back before it is over. Give a service account's"
        " token."
    ),
    "password": _("It signs in with a password ({key}). Give a service account's token."),
    "impersonate": _("It acts as somebody else ({key}), which the portal never does. Give its own account's token."),
    "no-token": _("The user of this context has no token. Give a service account's token."),
}


def kubeconfig_text(bad: kubeconfig.Bad) -> str:
    """What is wrong with a pasted file, as a sentence; nothing of the file is in it but names."""
    return str(KUBECONFIG[bad.code]).format_map(bad.params)


FABRICS: Mapping[profile.Fabric, Promise] = {
    profile.Fabric.UNKNOWN: pgettext_lazy("fabric of a cluster", "Not said"),
    profile.Fabric.INFINIBAND: _("InfiniBand"),
    profile.Fabric.ROCE: _("RoCE"),
    profile.Fabric.ETHERNET: _("Ethernet without RDMA"),
    profile.Fabric.HCCS: _("HCCS"),
}
SCHEDULERS: Mapping[profile.Scheduler, Promise] = {profile.Scheduler.VOLCANO: _("Volcano")}
PURPOSES: Mapping[profile.Purpose, Promise] = {
    profile.Purpose.MANAGEMENT: _("Management"),
    profile.Purpose.STORAGE: pgettext_lazy("network plane", "Storage"),
    profile.Purpose.COMPUTE: _("Collectives"),
    profile.Purpose.SERVICE: _("Services"),
}
ROLES: Mapping[profile.Role, Promise] = {
    profile.Role.TRAINING: _("Training"),
    profile.Role.INFERENCE: _("Inference"),
    profile.Role.DATA: _("Data processing"),
    profile.Role.STORAGE: pgettext_lazy("pool of nodes", "Storage"),
    profile.Role.MIXED: _("Mixed"),
}
FIELDS: Mapping[str, Promise] = {
    "fabric": _("Fabric"),
    "cni": _("Pod network"),
    "pod_mtu": _("MTU of pods"),
    "scheduler": _("Scheduler"),
    "note": _("Note"),
    "planes": _("Network planes"),
    "pools": _("Pools of nodes"),
}
PROFILE: Mapping[str, Promise] = {
    "table": _("This is no table."),
    "unknown": _("There is no such field."),
    "rows": _("At most {maximum} rows."),
    "required": _("Fill this in."),
    "twice": _("The name {name} stands here twice."),
    "line": _("At most {maximum} characters on one line."),
    "number": _("A whole number from 0 to {maximum}."),
    "choice": _("Choose one of those offered."),
    "cidr": _("A network is written as 10.0.2.0/24."),
    "label": _("A label is written as key=value."),
}


def profile_text(bad: profile.Bad) -> str:
    """What is wrong with a profile, as a sentence."""
    return str(PROFILE[bad.code]).format_map({key: str(value) for key, value in bad.params.items()})
