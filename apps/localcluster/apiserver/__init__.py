"""An embedded Kubernetes API server for one machine: plain ASGI, one process, state in one SQLite file.

It offers what the portal and the small cluster's other rooms lean on, and answers as a real API server does; what it
does not offer is refused with 404, 405 or 501 as a Status object.
"""
