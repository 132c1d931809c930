"""get and list: one object, or a collection by pages and at a chosen version."""

from __future__ import annotations

import asyncio
import binascii
from bisect import bisect_left
from typing import Any

import msgspec

from apps.localcluster.apiserver import tables
from apps.localcluster.apiserver.answers import Answer, record_json
from apps.localcluster.apiserver.errors import (
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
from apps.localcluster.apiserver.tokens import from_base64, to_base64

Object = dict[str, Any]

FUTURE_WAIT = 3.0  # seconds that a read waits for a version the store has not reached
AS_IT_IS_NOW = -1  # the version in a token that goes on after its own is forgotten
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


async def list_(store: Store, request: Request) -> Answer:
    """A collection, whole or by pages of `limit`."""
    check_list_options(request, watching=False)
    selector = selector_of(request.query, request.kind)
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
        exact = number > 0 and request.query.get("resourceVersionMatch") == "Exact"
        if exact and number < store.oldest:
            raise gone(LIST_TOO_OLD)
        version, limit = number if exact else store.version, limit if number else 0
    records = store.select_at(request.kind.resource, request.namespace, version)
    if start is not None:
        records = records[bisect_left(records, start, key=lambda record: record.key) :]
    if not selector.everything:
        records = [record for record in records if selector.matches(record)]
    return Answer(200, _list_json(request, records, limit, version))


def _list_json(request: Request, records: list[Record], limit: int, version: int) -> bytes:
    kind = request.kind
    metadata: Object = ({"continue": ""} if kind.custom else {}) | {"resourceVersion": str(version)}
    if limit and len(records) > limit:
        left, records = len(records) - limit, records[:limit]
        metadata["continue"] = _token(request, version, records[-1].key)
        if not (request.query.get("labelSelector") or request.query.get("fieldSelector")):
            metadata["remainingItemCount"] = left
    if request.form == TABLE:
        return _table(request, records, {name: value for name, value in metadata.items() if value})
    if request.form:
        named = {"kind": request.form, "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        return encode(named | {"items": [tables.partial(record.load()) for record in records]})
    named = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
    head = encode(named | {"items": []}).removesuffix(b"]}")
    # Items of built-in kinds carry no kind and apiVersion of their own, custom ones do.
    opening = kind.prefix if kind.custom else b"{"
    return head + b",".join(opening + record.raw for record in records) + b"]}"


def _table(request: Request, records: list[Record], metadata: Object) -> bytes:
    named = {"kind": request.kind.kind, "apiVersion": request.kind.api_version}
    return encode(tables.table(request, [named | record.load() for record in records], metadata))


def _token(request: Request, version: int, last: tuple[str, str]) -> str:
    """Where the page after the object `last` begins."""
    start = last[1] if request.namespace or not request.kind.namespaced else "/".join(last)
    return to_base64(encode({"v": "meta.k8s.io/v1", "rv": version, "start": start + "\0"}))


def _read_token(store: Store, request: Request, token: str) -> tuple[int, tuple[str, str]]:
    """Version and first key of the next page. Raises StatusError."""
    try:
        body = decode(from_base64(token))
        version, start = int(body["rv"]), str(body["start"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    namespace, name = request.namespace, start
    if not namespace and request.kind.namespaced:
        namespace, _, name = start.partition("/")
    if version == AS_IT_IS_NOW:
        version = store.version
    elif version < store.oldest:
        refusal = gone(CONTINUE_TOO_OLD)
        refusal.metadata = {"continue": to_base64(encode(body | {"rv": AS_IT_IS_NOW}))}
        raise refusal
    return version, (namespace, name)


def check_list_options(request: Request, *, watching: bool) -> None:
    """Refuse combinations of resourceVersion, resourceVersionMatch and sendInitialEvents that have no meaning."""
    query, field = request.query, "resourceVersionMatch"
    match, initial = query.get(field, ""), "sendInitialEvents" in query
    causes = []
    if watching and initial:
        if match != "NotOlderThan":
            causes.append(forbidden_value(field, f"sendInitialEvents requires setting {field} to NotOlderThan"))
    elif match:
        other = "sendInitialEvents" if watching else "resourceVersion"
        if watching or not query.get(other):
            of_what = " for watch" if watching else ""
            causes.append(forbidden_value(field, f"{field} is forbidden{of_what} unless {other} is provided"))
        if match not in ("Exact", "NotOlderThan"):
            causes.append(not_supported(field, match, ["Exact", "NotOlderThan", ""]))
    if not watching and initial:
        causes.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid(("meta.k8s.io", "ListOptions"), "", causes)


async def reach(store: Store, version: int) -> None:
    """Wait a moment for a version of the future, then refuse with 504."""
    if version > store.version:
        await asyncio.sleep(FUTURE_WAIT)
    if version > store.version:
        why = "Too large resource version"
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": why}], "retryAfterSeconds": 1}
        error = StatusError(504, "Timeout", f"Timeout: {why}: {version}, current: {store.version}", details)
        error.headers.append(("Retry-After", "1"))
        raise error
