"""Objects that are ours by a label: a name alone proves nothing."""

from __future__ import annotations

from apps.adapters.errors import NotFound
from apps.adapters.kubernetes.calls import KubeApi
from apps.adapters.kubernetes.objects import Object


class ForeignObject(Exception):
    """Something without our label has a name of ours; it is not ours to change or to delete."""


def find(api: KubeApi, path: str, label: tuple[str, str]) -> Object | None:
    """The object at this path, None where there is none. Raises ForeignObject where it has not this label."""
    try:
        found = api.get(path)
    except NotFound:
        return None
    if (found["metadata"].get("labels") or {}).get(label[0]) != label[1]:
        raise ForeignObject(path)
    return found
