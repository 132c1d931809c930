"""What real Volcano did with jobs, queues and nodes, asked again of a cluster with Volcano or our stand-in for it."""
