"""First start: roles, namespaces, priority classes, kinds of Volcano and others, and the administrator's kubeconfig."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from apps.localcluster.apiserver import meta, rules
from apps.localcluster.apiserver.definitions import DEFINITIONS, shipped
from apps.localcluster.apiserver.kinds import Registry
from apps.localcluster.apiserver.rbac import GROUP
from apps.localcluster.apiserver.store import Store
from apps.localcluster.apiserver.tokens import Tokens

Object = dict[str, Any]

ROLES = Path(__file__).with_name("roles.yaml")
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def prepare(store: Store, registry: Registry) -> None:
    """Install the custom kinds that are stored, and create what a new cluster has from the start."""
    for record in store.select(DEFINITIONS):
        registry.install(record.load())
    if store.fact("prepared"):
        return
    for definition in shipped():
        _create(store, registry, definition)
        registry.install(definition)
    for item in _first_objects():
        _create(store, registry, item)
    store.forget()
    store.set_fact("prepared", "yes")


def _first_objects() -> Iterator[Object]:
    for name, role in yaml.safe_load(ROLES.read_text()).items():
        yield _named(f"{GROUP}/v1", "ClusterRole", name) | {"rules": role["rules"]}
        if "groups" in role:
            reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
            subjects = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in role["groups"]]
            yield _named(f"{GROUP}/v1", "ClusterRoleBinding", name) | {"roleRef": reference, "subjects": subjects}
    for name in NAMESPACES:
        yield _named("v1", "Namespace", name)
    for name, value in PRIORITIES.items():
        yield _named("scheduling.k8s.io/v1", "PriorityClass", name) | {"value": value}


def _named(api_version: str, kind: str, name: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _create(store: Store, registry: Registry, item: Object) -> None:
    kind = registry.by_kind(item["apiVersion"], item["kind"])
    assert kind is not None, item["kind"]
    key = ("", item["metadata"]["name"])
    if store.get(kind.resource, key) is not None:
        return  # a start before this one was cut short
    meta.prepare_create(kind, item)
    rules.set_defaults(kind, item)
    rules.complete(kind, None, item)
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
    write_private(path, yaml.safe_dump(document, sort_keys=False))


def _known_token(path: Path) -> str:
    try:
        return str(yaml.safe_load(path.read_text())["users"][0]["user"]["token"])
    except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError):
        return ""


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, for its owner's eyes only."""
    fresh = path.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    fresh.rename(path)
