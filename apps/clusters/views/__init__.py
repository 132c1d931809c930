"""Pages of clusters: what there is, how each stands, and what operators do with them."""

from apps.clusters.views.acts import check, describe, end_maintenance, maintenance, remove
from apps.clusters.views.entering import add, renew
from apps.clusters.views.reading import clusters, detail

__all__ = ["add", "check", "clusters", "describe", "detail", "end_maintenance", "maintenance", "remove", "renew"]
