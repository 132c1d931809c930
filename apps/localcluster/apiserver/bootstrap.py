"""First start: roles, namespaces, priority classes, Volcano's kinds, and the administrator's kubeconfig."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import meta, rules
from apps.localcluster.apiserver.admission import DEFINITIONS
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.store import Store
from apps.localcluster.apiserver.tokens import Tokens

Object = dict[str, Any]

VOLCANO = Path(__file__).with_name("volcano.yaml")
ROLES = Path(__file__).with_name("roles.yaml")
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def prepare(store: Store, registry: Registry) -> None:
    """Install the custom kinds that are stored, and create what a new cluster has from the start."""
    for record in store.select(DEFINITIONS):
        registry.install(record.load())
    if store.fact("prepared"):
        return
    for definition in yaml.safe_load_all(VOLCANO.read_text()):
        create(store, registry, definition)
        registry.install(definition)
    for item in yaml.safe_load_all(ROLES.read_text()):
        create(store, registry, item)
    for name in NAMESPACES:
        create(store, registry, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name, value in PRIORITIES.items():
        item = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        create(store, registry, item)
    store.forget()
    store.set_fact("prepared", "yes")


def create(store: Store, registry: Registry, item: Object) -> None:
    """Store an object of the server's own, if it is not there."""
    kind = registry.by_kind(item["apiVersion"], item["kind"])
    assert kind is not None, item["kind"]
    key = (item["metadata"].get("namespace", ""), item["metadata"]["name"])
    if store.get(kind.resource, key) is not None:
        return
    meta.prepare_create(kind, item)
    rules.set_defaults(kind, item)
    store.put(kind.resource, key, item, 0)


def write_kubeconfig(path: Path, server: str, authority: bytes, tokens: Tokens) -> None:
    """Write the administrator's kubeconfig, for its owner's eyes only; a token that still works is kept."""
    token = _known_token(path)
    if not token or not tokens.is_admin(token):
        token = tokens.new_admin()
    trust = {"certificate-authority-data": base64.b64encode(authority).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": server} | trust}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
        "current-context": "local",
    }
    fresh = path.with_suffix(".new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        yaml.safe_dump(document, file, sort_keys=False)
    fresh.rename(path)


def _known_token(path: Path) -> str:
    try:
        document = yaml.safe_load(path.read_text())
        return str(document["users"][0]["user"]["token"])
    except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError):
        return ""
