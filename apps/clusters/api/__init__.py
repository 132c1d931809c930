"""The REST door of clusters, a file for each kind of thing."""

from apps.clusters.api import clusters, fleet, sources

__all__ = ["clusters", "fleet", "sources"]
