"""What a tenant's pods may reach and who may reach them: one description, for NetworkPolicies and for sentences."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

DNS_PORT = 53


@dataclass(frozen=True)
class Peer:
    """An address outside the namespace. `name` is for people; no `ports` means every port."""

    name: str
    cidr: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reach:
    """Beyond its own namespace and name resolution, which every tenant has. `to` are addresses its pods may open
    connections to, `by` those that may open connections to its pods."""

    to: tuple[Peer, ...] = ()
    by: tuple[Peer, ...] = ()


def read_peer(text: str) -> Peer:
    """A peer as an operator writes it: `name=address`, `name=10.0.0.0/16`, `name=10.0.0.5@443+8443`.

    Raises ValueError, naming what is wrong.
    """
    name, equals, rest = text.strip().partition("=")
    address, at, ports = rest.partition("@")
    if not equals or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
        raise ValueError(f"“{text}” is not name=address or name=address@port+port.")
    try:
        network = ipaddress.ip_network(address)
        numbers = tuple(int(port) for port in ports.split("+")) if at else ()
    except ValueError as error:
        raise ValueError(f"“{text}”: {error}.") from error
    if not all(0 < number < 65536 for number in numbers):
        raise ValueError(f"“{text}”: a port is a number from 1 to 65535.")
    return Peer(name, str(network), numbers)


def portal_peer(url: str) -> Peer | None:
    """The portal at the URL by which pods reach it, if that names an address: a NetworkPolicy knows no host names."""
    parts = urlsplit(url)
    try:
        network = ipaddress.ip_network(parts.hostname or "")
    except ValueError:
        return None
    return Peer("portal", str(network), (parts.port or (443 if parts.scheme == "https" else 80),))


def deny_all() -> dict[str, Any]:
    """The policy that lets nothing in or out."""
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def allow(reach: Reach) -> dict[str, Any]:
    """The policy that lets through what a tenant needs: policies add up.

    All ports inside the namespace, because collectives take any port; DNS by UDP first, TCP for large answers.
    """
    inside: dict[str, Any] = {"podSelector": {}}
    resolver = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    dns = [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")]
    return {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [inside]}, *(_rule("from", peer) for peer in reach.by)],
        "egress": [{"to": [inside]}, {"to": [resolver], "ports": dns}, *(_rule("to", peer) for peer in reach.to)],
    }


def _rule(side: str, peer: Peer) -> dict[str, Any]:
    rule: dict[str, Any] = {side: [{"ipBlock": {"cidr": peer.cidr}}]}
    if peer.ports:
        rule["ports"] = [{"protocol": "TCP", "port": port} for port in peer.ports]
    return rule
