"""Lines of a cluster's own log store. Only background work imports this: it has the token."""

from __future__ import annotations

from apps.adapters.errors import OutsideError, Refused
from apps.adapters.loki import Line, Loki, Page, query
from apps.clusters.services import sources
from apps.clusters.services.connect import Credential

__all__ = ["Line", "Page", "page_of", "query"]


def page_of(cluster_id: int, asking: str, span: tuple[int, int], size: int) -> Page:
    """About `size` lines of a query in a span of time (ns, its end not in it). The cluster's page hears whether it was
    answered. Raises Unavailable, Refused (also where the cluster has none)."""
    row = sources.in_use(cluster_id, sources.Kind.LOKI)
    if row is None:
        raise Refused("The cluster has no Loki any more.")
    loki = Loki(sources.address_of(row, Credential(row.path) if row.has_token else None))
    try:
        page = loki.page(asking, *span, size)
    except OutsideError as error:
        sources.note_source(row.pk, error.text)
        raise
    finally:
        loki.close()
    sources.note_source(row.pk, "")
    return page
