"""Speaking to one Kubernetes API server.

`calls` (the official client) is for reconcilers, `stream` (raw bytes) for the watch process; `objects` is where paths
and query parameters are written, `answers` where refusals are read. Only `calls` imports the SDK, so that the other
modules may be used where it must not be.
"""
