"""Plays the nodes of a fleet file: runs pods as local processes, serves their logs. A client of any Kubernetes API."""
