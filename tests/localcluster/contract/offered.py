"""Discovery of a cluster that offers less than the recorded one.

What it lists must be as recorded, to the last word; what it leaves out it must refuse, with every verb that the recorded
one has for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.localcluster.contract.exchange import Exchange
from tests.localcluster.contract.matching import Comparison

Object = dict[str, Any]

LISTS = ("resources", "items")
METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


def tells_of_version(body: Any) -> bool:
    """Whether it lists the resources of one version, in one of the two forms; the second for the core group alone."""
    if not isinstance(body, dict):
        return False
    return ("groupVersion" in body and "resources" in body) or (
        body.get("kind") == "APIGroupDiscoveryList" and [each["metadata"] for each in body.get("items", ())] == [{}]
    )


def difference(exchange: Exchange, wanted: Object, got: Object) -> str | None:
    """The first difference between two such documents."""
    heads = [{name: value for name, value in body.items() if name not in LISTS} for body in (wanted, got)]
    if found := Comparison().difference(*heads):
        return found
    version = wanted.get("groupVersion", "v1")
    base, listed = f"/apis/{version}" if "/" in version else f"/api/{version}", dict(_entries(got))
    for name, entry in _entries(wanted):
        found = Comparison().difference(entry, listed[name]) if name in listed else _taken(exchange, base, name, entry)
        if found:
            return f"{name}: {found}"
    return None


def _entries(body: Object) -> Iterator[tuple[str, Object]]:
    """Resources and subresources by name, `pods/log`; each says whether it is `namespaced`."""
    if "resources" in body:
        yield from ((entry["name"], entry) for entry in body["resources"])
        return
    for entry in (entry for group in body["items"] for version in group["versions"] for entry in version["resources"]):
        inside = {"namespaced": entry["scope"] == "Namespaced"}
        yield entry["resource"], {name: value for name, value in entry.items() if name != "subresources"} | inside
        for below in entry.get("subresources", ()):
            yield f"{entry['resource']}/{below['subresource']}", below | inside


def _taken(exchange: Exchange, base: str, name: str, entry: Object) -> str | None:
    """A verb that is taken although discovery does not tell of it."""
    plural, _, below = name.partition("/")
    path = f"{base}/{'namespaces/default/' if entry['namespaced'] else ''}{plural}" + (f"/x/{below}" if below else "")
    for method in sorted(METHODS[verb] for verb in entry["verbs"] if verb in METHODS):
        answer = exchange.ask(method, path, {} if method in ("POST", "PUT", "PATCH") else None)
        if not answer.refuses:
            return f"it is not listed, and yet {method} {path} gives {answer}"
    return None
