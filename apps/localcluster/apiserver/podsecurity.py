"""Pod Security: the levels that a namespace's labels ask for, checked on new pods.

Not looked at: AppArmor, SELinux, sysctls, Windows host processes, and hosts of probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from apps.localcluster.apiserver import pods
from apps.localcluster.apiserver.errors import Cause, invalid_value
from apps.localcluster.apiserver.store import Store

Object = dict[str, Any]
Fault = tuple[str, str]
"""What a check is called, and the words in brackets behind it."""

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
DEFAULT_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
    *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
VOLUME_TYPES = {
    *(
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
        "image",
    ),
}


def label_faults(namespace: Object) -> list[Cause]:
    labels = namespace["metadata"].get("labels") or {}
    return [
        invalid_value(f"metadata.labels[{PREFIX}{mode}]", labels[PREFIX + mode], f"must be one of {', '.join(LEVELS)}")
        for mode in ("enforce", "audit", "warn")
        if labels.get(PREFIX + mode, "privileged") not in LEVELS
    ]


def violation(labels: dict[str, str], mode: str, pod: Object) -> str:
    """Which level a pod violates and how; empty when it does not. `mode` is enforce or warn."""
    level, version = labels.get(PREFIX + mode, ""), labels.get(f"{PREFIX}{mode}-version", "latest")
    found = faults(level, pod["spec"])
    told = ", ".join(f"{name} ({words})" if words else name for name, words in found)
    return f'violate PodSecurity "{level}:{version}": {told}' if found else ""


def new_level_warnings(store: Store, old: Object, new: Object) -> list[str]:
    """Pods that are there already and would not pass the new level of their namespace."""
    before, labels = (each["metadata"].get("labels") or {} for each in (old, new))
    level, name = labels.get(PREFIX + "enforce", ""), new["metadata"]["name"]
    if level in ("", "privileged", before.get(PREFIX + "enforce")):
        return []
    found = [(record.key[1], faults(level, record.load()["spec"])) for record in store.select("pods", name)]
    told = [f"{pod}: {', '.join(fault for fault, _ in each)}" for pod, each in found if each]
    head = f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{level}:latest"'
    return [head, *told] if told else []


def faults(level: str, spec: Object) -> list[Fault]:
    """What a pod does that a level does not allow, in the order in which a real server tells it."""
    checks = {"baseline": BASELINE, "restricted": RESTRICTED}.get(level, ())
    return [fault for check in checks if (fault := check(spec))]


Check = Callable[[Object], "Fault | None"]


def _security(container: Object) -> Object:
    found: Object = container.get("securityContext") or {}
    return found


def _named(containers: Iterable[Object]) -> str:
    names = [f'"{each["name"]}"' for each in containers]
    return f"container{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _each(title: str, words: str, bad: Callable[[Object], bool]) -> Check:
    """A check of every container by itself."""

    def check(spec: Object) -> Fault | None:
        named = _named(each for each in pods.containers(spec) if bad(each))
        return (title, f"{named} must {words}") if named else None

    return check


def _added(allowed: set[str], title: str, *, drop: bool) -> Check:
    """A check of the capabilities that containers add, and drop."""

    def check(spec: Object) -> Fault | None:
        containers = [(each, _security(each).get("capabilities") or {}) for each in pods.containers(spec)]
        keep = _named(each for each, own in containers if drop and "ALL" not in (own.get("drop") or ()))
        parts = [f'{keep} must set securityContext.capabilities.drop=["ALL"]'] if keep else []
        bad = [(each, sorted(set(own.get("add") or ()) - allowed)) for each, own in containers]
        extra = [name for _, names in bad for name in names]
        if extra:
            named = _named(each for each, names in bad if names)
            listed = ", ".join(f'"{name}"' for name in dict.fromkeys(extra))
            parts.append(f"{named} must not include {listed} in securityContext.capabilities.add")
        return (title, "; ".join(parts)) if parts else None

    return check


def _host_namespaces(spec: Object) -> Fault | None:
    used = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return ("host namespaces", ", ".join(used)) if used else None


def _volumes(title: str, words: str, bad: Callable[[str], bool], *, tell_type: bool) -> Check:
    def check(spec: Object) -> Fault | None:
        found = [
            (each["name"], type_)
            for each in spec.get("volumes") or ()
            for type_ in each
            if type_ != "name" and bad(type_)
        ]
        if not found:
            return None
        many = "s" if len(found) > 1 else ""
        told = f"volume{many} " + ", ".join(f'"{name}"' for name, _ in found)
        types = ", ".join(dict.fromkeys(f'"{type_}"' for _, type_ in found))
        return title, f"{told} {words}{many} {types}" if tell_type else told

    return check


def _host_ports(spec: Object) -> Fault | None:
    used = [
        (each, port["hostPort"])
        for each in pods.containers(spec)
        for port in each.get("ports") or ()
        if port.get("hostPort")
    ]
    numbers = ", ".join(str(port) for _, port in used)
    many = "s" if len(used) > 1 else ""
    return ("hostPort", f"{_named(each for each, _ in used)} uses hostPort{many} {numbers}") if used else None


def _pod_or_container(title: str, words: str, good: Callable[[Object], bool]) -> Check:
    """A check that the pod can satisfy for all its containers."""

    def check(spec: Object) -> Fault | None:
        if good(_security(spec)):
            bad = [
                each
                for each in pods.containers(spec)
                if _security(each) and not good(_security(spec) | _security(each))
            ]
        else:
            bad = [each for each in pods.containers(spec) if not good(_security(each))]
        return (title, f"pod or {_named(bad)} must {words}") if bad else None

    return check


def _as_root(spec: Object) -> Fault | None:
    if _security(spec).get("runAsUser") == 0:
        return "runAsUser=0", "pod must not set runAsUser=0"
    named = _named(each for each in pods.containers(spec) if _security(each).get("runAsUser") == 0)
    return ("runAsUser=0", f"{named} must not set runAsUser=0") if named else None


def _profile(security: Object) -> str:
    return str((security.get("seccompProfile") or {}).get("type", ""))


_CAPABILITIES = _added(DEFAULT_CAPABILITIES, "non-default capabilities", drop=False)
_HOST_PATHS = _volumes("hostPath volumes", "", lambda type_: type_ == "hostPath", tell_type=False)
_COMMON: tuple[Check, ...] = (
    _host_ports,
    _each(
        "privileged", "not set securityContext.privileged=true", lambda each: _security(each).get("privileged") is True
    ),
    _each(
        "procMount", "not set securityContext.procMount", lambda each: _security(each).get("procMount") == "Unmasked"
    ),
)
BASELINE: tuple[Check, ...] = (
    _CAPABILITIES,
    _host_namespaces,
    _HOST_PATHS,
    *_COMMON,
    _each("seccompProfile", "not set it to Unconfined", lambda each: _profile(_security(each)) == "Unconfined"),
)
RESTRICTED: tuple[Check, ...] = (
    _host_namespaces,
    *_COMMON,
    _each(
        "allowPrivilegeEscalation != false",
        "set securityContext.allowPrivilegeEscalation=false",
        lambda each: _security(each).get("allowPrivilegeEscalation") is not False,
    ),
    _added({"NET_BIND_SERVICE"}, "unrestricted capabilities", drop=True),
    _volumes(
        "restricted volume types",
        "uses restricted volume type",
        lambda type_: type_ not in VOLUME_TYPES,
        tell_type=True,
    ),
    _pod_or_container(
        "runAsNonRoot != true",
        "set securityContext.runAsNonRoot=true",
        lambda security: security.get("runAsNonRoot") is True,
    ),
    _as_root,
    _pod_or_container(
        "seccompProfile",
        'set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
        lambda security: _profile(security) in ("RuntimeDefault", "Localhost"),
    ),
)
