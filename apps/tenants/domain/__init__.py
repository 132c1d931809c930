"""A tenant's place in a cluster: what it is made of, what it may reach, how what is there differs from it."""
