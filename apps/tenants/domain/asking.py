"""What a new tenant may be called and asked with."""

SLUG = r"[a-z]([a-z0-9-]*[a-z0-9])?"
"""Lower-case, as it becomes part of a namespace's name; matched whole."""
LONGEST_SLUG, LONGEST_NAME, LONGEST_TEXT = 30, 80, 2000
MOST_GPUS = 100_000
RESERVED = frozenset({"platform"})
"""Short names that mean something else at the identity provider."""
