"""An address in 127/8 for each pod, and the hosts file that makes peers resolve as a cluster's DNS would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]

# 127.0 to 127.15 are left to the machine's own services (127.0.0.1, 127.0.0.53, 127.0.1.1).
FIRST, COUNT = 127 << 24 | 16 << 16, (256 - 16) << 16
DOMAIN = "svc.cluster.local"


def address(uid: str, taken: Iterable[str]) -> str:
    """The address of the pod with this uid: always the same unless another pod has it. Never ends in 0 or 255."""
    used = set(taken)
    start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big") % COUNT
    for step in range(COUNT):
        number = FIRST + (start + step) % COUNT
        text = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
        if number & 255 not in (0, 255) and text not in used:
            return text
    raise RuntimeError("all addresses are taken")


def ip_of(pod: Object, given: Mapping[str, str]) -> str:
    return given.get(pod["metadata"]["uid"]) or str((pod.get("status") or {}).get("podIP") or "")


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def hostname(pod: Object) -> str:
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]


def hosts(pod: Object, pods: Iterable[Object], services: Iterable[Object], given: Mapping[str, str]) -> str:
    """The pod's /etc/hosts. `pods` and `services` are those of its namespace.

    `given` has the addresses of pods (by uid) that may not stand in their status yet, the pod's own among them.
    Resolves what the cluster's DNS would: a Service's name to its ready pods (to all with an address where it publishes
    those not ready), and `hostname.subdomain` where a headless Service of the subdomain's name selects the pod.
    """
    namespace = pod["metadata"]["namespace"]
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback"]
    own = hostname(pod)
    subdomain = pod["spec"].get("subdomain")
    full = [f"{own}.{subdomain}.{namespace}.{DOMAIN}"] if subdomain else []
    lines.append("\t".join([ip_of(pod, given), *full, own]))
    addressed = [(ip_of(p, given), p) for p in sorted(pods, key=_name) if "deletionTimestamp" not in p["metadata"]]
    for service in sorted(services, key=_name):
        lines += _service_lines(service, namespace, [(ip, p) for ip, p in addressed if ip])
    return "\n".join(lines) + "\n"


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _service_lines(service: Object, namespace: str, pods: list[tuple[str, Object]]) -> list[str]:
    name, spec = _name(service), service["spec"]
    selector = spec.get("selector")
    if not selector:
        return []
    selected = [(ip, p) for ip, p in pods if selector.items() <= (p["metadata"].get("labels") or {}).items()]
    known = [(ip, p) for ip, p in selected if spec.get("publishNotReadyAddresses") or is_ready(p)]
    lines = [f"{ip}\t{_names(name, namespace)}" for ip, _ in known]
    if spec.get("clusterIP") == "None":
        named = [(ip, p) for ip, p in known if p["spec"].get("subdomain") == name and p["spec"].get("hostname")]
        lines += [f"{ip}\t{_names(f'{hostname(p)}.{name}', namespace)}" for ip, p in named]
    return lines


def _names(name: str, namespace: str) -> str:
    return f"{name}.{namespace}.{DOMAIN} {name}.{namespace}.svc {name}.{namespace} {name}"
