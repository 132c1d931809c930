"""Speaking to one Kubernetes API server.

`calls` (the official client) is for reconcilers, `stream` (raw bytes) for the watch process; `objects` is where paths
and query parameters are written, `answers` where refusals are read.
"""

from apps.adapters.kubernetes.answers import AnotherObject, NodeGone, NotInstalled
from apps.adapters.kubernetes.calls import Applied, KubeApi
from apps.adapters.kubernetes.endpoint import Endpoint
from apps.adapters.kubernetes.objects import Object, object_path

__all__ = ["AnotherObject", "Applied", "Endpoint", "KubeApi", "NodeGone", "NotInstalled", "Object", "object_path"]
