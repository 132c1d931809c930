"""A stand-in for Volcano 1.15: admission webhooks, job and queue controllers and a gang scheduler.

It is a client of any Kubernetes API server. The decisions are functions of plain dicts without I/O (`admission`,
`plugins`, `pods`, `lifecycle`, `scheduler`); the controllers around them only read caches and write what was decided.
"""
