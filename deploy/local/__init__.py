"""Starting what the portal needs on one machine: servers, the demo, the servers of a test run.

Plain Python, no Django: it prepares environments and starts processes, and imports nothing of `apps`.
"""
