"""The gang scheduler: one session is a function from what is in the cluster to what shall be done.

`session.run` calls the actions of its settings, in their order, on one `state.State`: `allocation` gives out what is
free, `eviction` takes from others for whom the plugins in `votes` let it. `shares` knows what queues may use, `nodes`
and `topology` which node is best, `report` what is said of those that wait.
"""
