"""JSON merge patch (RFC 7386), JSON patch (RFC 6902) and the strategic merge patch of built-in kinds."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from apps.localcluster.apiserver.errors import StatusError, bad_request
from apps.localcluster.apiserver.fields import MAP, SET, list_keys, list_type
from apps.localcluster.apiserver.requests import Request
from apps.localcluster.apiserver.schemas import subschema
from apps.localcluster.apiserver.store import decode

Object = dict[str, Any]


MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TYPES = (MERGE, JSON_PATCH, STRATEGIC)
UNREADABLE = "error decoding patch: json: cannot unmarshal {} into Go value of type {}"


class PatchFailed(Exception):
    """A JSON patch that cannot be carried out."""


def patched(request: Request, whole: Object) -> Object:
    """The object after a merge, JSON or strategic patch. Raises StatusError."""
    try:
        patch = decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if request.content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request(UNREADABLE.format("object", "jsonpatch.Patch"))
        try:
            result = json_patch(whole, patch)
        except PatchFailed as error:
            told = "the server rejected our request due to an error in our request"
            raise StatusError(422, "Invalid", told, {}) from error
    elif not isinstance(patch, dict):
        raise bad_request(UNREADABLE.format("array", "map[string]interface {}"))
    elif request.content_type == MERGE:
        result = merge(whole, patch)
    else:
        result = strategic(request.kind.schema, whole, patch)
    if not isinstance(result, dict):
        raise bad_request("the patched object is no object")
    return result


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, everything else replaces or descends."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def json_patch(document: Any, operations: list[Object]) -> Any:
    """RFC 6902. Raises PatchFailed."""
    root = {"": deepcopy(document)}  # so that the whole document has a parent too
    for operation in operations:
        name, path = operation.get("op"), _pointer(operation.get("path"))
        if name in ("add", "replace", "test") and "value" not in operation:
            raise PatchFailed(f"{name} operation without value")
        value = operation.get("value")
        if name in ("move", "copy"):
            source = _pointer(operation.get("from"))
            value = _at(_at_all(root, source[:-1]), source[-1])
            if name == "move":
                _put(_at_all(root, source[:-1]), source[-1], "remove", None)
        _put(_at_all(root, path[:-1]), path[-1], "add" if name in ("move", "copy") else name, deepcopy(value))
    return root[""]


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchFailed(f"invalid path {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _at_all(document: Any, path: list[str]) -> Any:
    for key in path:
        document = _at(document, key)
    return document


def _at(parent: Any, key: str) -> Any:
    if isinstance(parent, dict) and key in parent:
        return parent[key]
    if isinstance(parent, list):
        return parent[_index(key, len(parent))]
    raise PatchFailed(f"doc is missing path: {key}: missing value")


def _index(key: str, below: int) -> int:
    if not key.isdigit() or int(key) >= below:
        raise PatchFailed(f"Unable to access invalid index: {key}: invalid index referenced")
    return int(key)


def _put(parent: Any, key: str, name: Any, value: Any) -> None:
    """Carry out one operation at a place in its parent."""
    place = _index(key, len(parent)) if isinstance(parent, list) and name != "add" else key
    if name == "add" and isinstance(parent, list):
        parent.insert(len(parent) if key == "-" else _index(key, len(parent) + 1), value)
    elif name == "add" and isinstance(parent, dict):
        parent[key] = value
    elif name not in ("remove", "replace", "test"):
        raise PatchFailed(f"Unexpected kind: {name}")
    elif name == "replace" and isinstance(parent, dict):
        parent[key] = value  # as real servers do, whether it was there or not
    elif _at(parent, key) != value and name == "test":
        raise PatchFailed(f"testing value {key} failed: test failed")
    elif name == "remove":
        del parent[place]
    elif name == "replace":
        parent[place] = value


def strategic(node: Object, target: Any, patch: Any) -> Any:
    """The strategic merge patch of a built-in kind: lists with keys are merged item by item.

    Knows `$patch: delete` and `replace`, `$retainKeys`, `$deleteFromPrimitiveList` and `$setElementOrder`. Raises
    StatusError 500 for an item without its key or an unknown directive, as a real server does.
    """
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive not in (None, "merge", "replace", "delete"):
        raise StatusError(500, "", f"Unknown patch type: {directive}")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if "$retainKeys" in patch:
        result = {name: value for name, value in result.items() if name in patch["$retainKeys"]}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            result[field] = [each for each in result.get(field) or () if each not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, list):
            result[name] = _merge_list(subschema(node, name), result.get(name) or [], value)
        else:
            result[name] = strategic(subschema(node, name), result.get(name), value)
    for name, order in patch.items():
        field = name.removeprefix("$setElementOrder/")
        if field != name and isinstance(result.get(field), list):
            before = target.get(field) if isinstance(target, dict) else None
            result[field] = _ordered(_merge_key(subschema(node, field)), result[field], order, before or [])
    return result


def _merge_key(node: Object) -> str:
    """The merge key of a strategic patch is one field, where apply may need several; empty for a list of values."""
    return list_keys(node)[0] if list_type(node) == MAP else ""


def _ordered(key: str, items: list[Any], order: list[Any], before: list[Any]) -> list[Any]:
    """Items that the client names in its order; the others, in theirs, each before what it stood in front of."""

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    listed, places = [name(each) for each in order], [name(each) for each in before]
    named = sorted((each for each in items if name(each) in listed), key=lambda each: listed.index(name(each)))
    others = [each for each in items if name(each) not in listed]
    others.sort(key=lambda each: places.index(name(each)) if name(each) in places else len(places))
    result: list[Any] = []
    while named and others:
        pair = name(others[0]), name(named[0])
        first = all(each in places for each in pair) and places.index(pair[0]) < places.index(pair[1])
        result.append(others.pop(0) if first else named.pop(0))
    return result + named + others


def _merge_list(node: Object, target: list[Any], patch: list[Any]) -> list[Any]:
    if list_type(node) == SET:
        return _ordered("", list(dict.fromkeys([*target, *patch])), patch, target)
    if list_type(node) != MAP:
        return patch
    key, inner = _merge_key(node), node.get("items") or {}
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if "$patch" not in each]
    result = list(target)
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise StatusError(500, "", f"map: {_go_map(each)} does not contain declared merge key: {key}")
        at = next((index for index, item in enumerate(result) if item.get(key) == each[key]), None)
        if each.get("$patch") == "delete":
            result = [item for item in result if item.get(key) != each[key]]
        elif at is None:
            result.append(strategic(inner, {}, each))
        else:
            result[at] = strategic(inner, result[at], each)
    return _ordered(key, result, patch, target)


def _go_map(value: object) -> str:
    """A map as Go prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_go_map(each)}" for name, each in sorted(value.items())) + "]"
    return str(value)
