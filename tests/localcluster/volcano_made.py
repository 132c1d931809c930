"""What plugins do to pods and make for a job, in the form of the recordings: of what was built, or is on a server."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.localcluster.volcano_cases import Object

_UID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def _plain(value: Any) -> Any:
    text = re.sub(r"[A-Za-z0-9+/=]{120,}", "<long>", re.sub(_UID, "<uid>", json.dumps(value)))
    return json.loads(text)


def _container(container: Object, *, init: bool) -> Object:
    env: dict[str, Any] = {}
    for entry in container.get("env") or []:
        assert entry["name"] not in env, "a variable set twice"
        env[entry["name"]] = [entry["valueFrom"]] if "valueFrom" in entry else _plain(entry.get("value"))
    own = [m for m in container.get("volumeMounts") or [] if "serviceaccount" not in m["mountPath"]]
    mounts = sorted([m["mountPath"], m.get("subPath", ""), _plain(m["name"])] for m in own)
    ports = [[port.get("name"), port["containerPort"]] for port in container.get("ports") or []]
    started = {"command": container.get("command"), "image": container["image"]} if init else {}
    return {"env": env, "mounts": mounts, **({"ports": ports} if ports else {}), **started}


def pod_facts(pod: Object) -> Object:
    spec = pod["spec"]
    facts = {f"init:{c['name']}": _container(c, init=True) for c in spec.get("initContainers") or []}
    facts |= {c["name"]: _container(c, init=False) for c in spec["containers"]}
    facts |= {key: spec[key] for key in ("hostname", "subdomain") if spec.get(key)}
    facts |= {"dnsPolicy": spec["dnsPolicy"]} if spec.get("dnsPolicy", "ClusterFirst") != "ClusterFirst" else {}
    volumes = []
    for volume in spec.get("volumes") or []:
        if not volume["name"].startswith("kube-api-access"):
            kind = next(key for key in volume if key != "name")
            default = {"defaultMode": 420} if kind == "configMap" else {}  # given by the server
            volumes.append([_plain(volume["name"]), kind, _plain({**default, **volume[kind]})])
    return {**facts, **({"volumes": sorted(volumes, key=json.dumps)} if volumes else {})}


def object_facts(item: Object) -> Object:
    owner = [f"{reference['kind']}/{reference['name']}" for reference in item["metadata"].get("ownerReferences", [])]
    if item["kind"] == "ConfigMap":
        return {"owner": owner, "data": {key: _plain(value) for key, value in item.get("data", {}).items()}}
    if item["kind"] == "Secret":
        return {"owner": owner, "keys": sorted(item.get("data") or item["stringData"]), "type": item["type"]}
    if item["kind"] != "Service":
        return {"owner": owner, "spec": item["spec"]}
    keys = ("clusterIP", "selector", "ports", "publishNotReadyAddresses", "type")
    spec = {"type": "ClusterIP", **{key: item["spec"][key] for key in keys if item["spec"].get(key) is not None}}
    if spec.get("clusterIP") != "None":
        spec["clusterIP"] = "<ip>"
    return {"owner": owner, "spec": spec}
