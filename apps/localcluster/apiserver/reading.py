"""get and list: one object, or a collection by pages and at a chosen version."""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_left
from typing import Any

import msgspec

from apps.localcluster.apiserver import tables
from apps.localcluster.apiserver.answers import Answer, record_json
from apps.localcluster.apiserver.errors import (
    Cause,
    StatusError,
    bad_request,
    forbidden_value,
    gone,
    invalid,
    not_found,
    not_supported,
)
from apps.localcluster.apiserver.requests import PARTIAL, TABLE, Request, number_of, version_of
from apps.localcluster.apiserver.selectors import selector_of
from apps.localcluster.apiserver.store import Record, Store, decode, encode

Object = dict[str, Any]

FUTURE_WAIT = 3.0  # seconds that a read waits for a version the store has not reached
LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


async def get(store: Store, request: Request) -> Answer:
    """One object as it is now."""
    await reach(store, version_of(request.query.get("resourceVersion", "")))
    record = store.get(request.kind.resource, request.key)
    if record is None:
        raise not_found(request.kind, request.name)
    if request.form == PARTIAL:
        return Answer(200, encode(tables.partial(record.load())))
    if request.form == TABLE:
        return Answer(200, _table(request, [record], {"resourceVersion": str(record.version)}))
    return Answer(200, record_json(request.kind, record))


def _table(request: Request, records: list[Record], metadata: Object) -> bytes:
    named = {"kind": request.kind.kind, "apiVersion": request.kind.api_version}
    return encode(tables.table(request, [named | record.load() for record in records], metadata))


async def list_(store: Store, request: Request) -> Answer:
    """A collection, whole or by pages of `limit`."""
    kind = request.kind
    check_list_options(request, watching=False)
    selector = selector_of(request.query, kind)
    limit, token = number_of(request, "limit"), request.query.get("continue", "")
    wanted = request.query.get("resourceVersion", "")
    version, start = store.version, None
    if token:
        if wanted not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _read_token(store, request, token)
    elif wanted:
        number = version_of(wanted)
        await reach(store, number)
        if number == 0:
            limit = 0
        elif request.query.get("resourceVersionMatch") == "Exact":
            if number < store.oldest:
                raise gone(LIST_TOO_OLD)
            version = number
        else:
            version = store.version
    if version == store.version:
        records = store.select(kind.resource, request.namespace)
    else:
        records = store.select_at(kind.resource, request.namespace, version)
    if start is not None:
        records = records[bisect_left(records, start, key=lambda record: record.key) :]
    if not selector.everything:
        records = [record for record in records if selector.matches(record)]
    return Answer(200, _list_json(request, records, limit, version))


def _list_json(request: Request, records: list[Record], limit: int, version: int) -> bytes:
    kind = request.kind
    metadata: Object = {"continue": ""} if kind.custom else {}
    metadata["resourceVersion"] = str(version)
    if limit and len(records) > limit:
        left, records = len(records) - limit, records[:limit]
        metadata["continue"] = _token(request, version, records[-1].key)
        if not (request.query.get("labelSelector") or request.query.get("fieldSelector")):
            metadata["remainingItemCount"] = left
    if request.form == PARTIAL + "List":
        named = {"kind": PARTIAL + "List", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return encode(named | {"items": [tables.partial(record.load()) for record in records]})
    if request.form == TABLE:
        return _table(request, records, {name: value for name, value in metadata.items() if value})
    head = encode(
        {
            "kind": kind.list_kind or kind.kind + "List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": [],
        }
    )
    # Items of built-in kinds carry no kind and apiVersion of their own, custom ones do.
    opening = kind.prefix if kind.custom else b"{"
    items = b",".join(opening + record.raw for record in records)
    return head[:-2] + items + b"]}"


def _token(request: Request, version: int, last: tuple[str, str]) -> str:
    start = last[1] if request.namespace or not request.kind.namespaced else "/".join(last)
    body = {"v": "meta.k8s.io/v1", "rv": version, "start": start + "\0"}
    return base64.urlsafe_b64encode(encode(body)).decode().rstrip("=")


def _read_token(store: Store, request: Request, token: str) -> tuple[int, tuple[str, str]]:
    """Version and first key of the next page. A version of -1 means "as it is now". Raises StatusError."""
    try:
        body = decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, start = int(body["rv"]), str(body["start"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if request.namespace or not request.kind.namespaced:
        key = (request.namespace, start)
    else:
        namespace, _, name = start.partition("/")
        key = (namespace, name)
    if version == -1:
        return store.version, key
    if version < store.oldest:
        refusal = gone(CONTINUE_TOO_OLD)
        fresh = {"v": "meta.k8s.io/v1", "rv": -1, "start": start}
        refusal.metadata = {"continue": base64.urlsafe_b64encode(encode(fresh)).decode().rstrip("=")}
        raise refusal
    return version, key


def check_list_options(request: Request, *, watching: bool) -> None:
    """Refuse combinations of resourceVersion, resourceVersionMatch and sendInitialEvents that have no meaning."""
    query = request.query
    match, initial = query.get("resourceVersionMatch", ""), query.get("sendInitialEvents")
    causes: list[Cause] = []
    if watching and initial is not None:
        if match != "NotOlderThan":
            causes.append(
                forbidden_value(
                    "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
                )
            )
    elif match:
        if watching:
            causes.append(
                forbidden_value(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                )
            )
        elif not query.get("resourceVersion"):
            causes.append(
                forbidden_value(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if match not in ("Exact", "NotOlderThan"):
            causes.append(not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
    if not watching and initial is not None:
        causes.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid(("meta.k8s.io", "ListOptions"), "", causes)


async def reach(store: Store, version: int) -> None:
    """Wait a moment for a version of the future, then refuse with 504."""
    if version <= store.version:
        return
    await asyncio.sleep(FUTURE_WAIT)
    if version <= store.version:
        return
    message = f"Timeout: Too large resource version: {version}, current: {store.version}"
    details: Object = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    error = StatusError(504, "Timeout", message, details)
    error.headers.append(("Retry-After", "1"))
    raise error
