"""A small Kubernetes cluster on one machine: three rooms that meet only through the Kubernetes API."""
