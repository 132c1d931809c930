"""The gang scheduler: one session is a function from what is in the cluster to what shall be done.

Room is left for what comes later: `session.run` calls its actions in Volcano's order (enqueue, allocate, backfill);
preempt and reclaim are further actions on the same `Session`, hierarchy belongs into `shares`, topology into `nodes`.
"""
