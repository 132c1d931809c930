"""Pods: their defaults, and what their other paths do."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver.quantities import canonical_resources

Object = dict[str, Any]

POD_DEFAULTS: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
}
PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
BURSTABLE, GUARANTEED, BEST_EFFORT = "Burstable", "Guaranteed", "BestEffort"


def selectable(item: Object) -> dict[str, str]:
    """Values for the field selectors of pods."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def set_pod_defaults(pod: Object) -> None:
    """Defaults of a pod."""
    spec = pod.setdefault("spec", {})
    set_spec_defaults(spec)
    status = pod.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", quality(spec))


def set_spec_defaults(spec: Object) -> None:
    """Defaults of a pod's spec or a template's."""
    for name, value in POD_DEFAULTS.items():
        spec.setdefault(name, value)
    spec.setdefault("securityContext", {})
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _set_container_defaults(container)
    for volume in spec.get("volumes") or ():
        _set_volume_defaults(volume)


def _set_container_defaults(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    if "imagePullPolicy" not in container:
        name = str(container.get("image", "")).rpartition("/")[2]
        tagged = "@" in name or (":" in name and not name.endswith(":latest"))
        container["imagePullPolicy"] = "IfNotPresent" if tagged else "Always"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            for name, value in PROBE_DEFAULTS.items():
                container[probe].setdefault(name, value)
            if "httpGet" in container[probe]:
                container[probe]["httpGet"].setdefault("scheme", "HTTP")
                container[probe]["httpGet"].setdefault("path", "/")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    resources = container["resources"]
    if resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)


def _set_volume_defaults(volume: Object) -> None:
    for source in ("configMap", "downwardAPI", "projected", "secret"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", 420)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        if item.get("fieldRef"):
            item["fieldRef"].setdefault("apiVersion", "v1")
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def decode_pod(pod: Object) -> str:
    """Bring quantities into their canonical form; a text for a value of the wrong type."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return "" if spec is None else "json: cannot unmarshal into Go struct field .spec of type v1.PodSpec"
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            for variable in container.get("env") or ():
                if "value" in variable and not isinstance(variable["value"], str):
                    kind = "bool" if isinstance(variable["value"], bool) else "number"
                    path = f"EnvVar.spec.{field}.env.value"
                    return f"json: cannot unmarshal {kind} into Go struct field {path} of type string"
            if fault := canonical_resources(container.get("resources") or {}):
                return fault
    for name, type_, title in (("hostNetwork", bool, "bool"), ("terminationGracePeriodSeconds", int, "int64")):
        if name in spec and not isinstance(spec[name], type_):
            return f"json: cannot unmarshal string into Go struct field PodSpec.spec.{name} of type {title}"
    return ""


def quality(spec: Object) -> str:
    """Quality of service class."""
    guaranteed, any_set = True, False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            any_set = any_set or name in limits or name in requests
            guaranteed = guaranteed and name in limits and limits[name] == requests.get(name)
    if not any_set:
        return BEST_EFFORT
    return GUARANTEED if guaranteed else BURSTABLE
