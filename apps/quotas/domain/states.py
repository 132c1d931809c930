"""The states of a quota request and the moves allowed between them."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The first four wait for somebody: a team admin, a platform operator, or the asker to answer the offer of one."""

    TEAM = "team"
    PLATFORM = "platform"
    TEAM_OFFER = "team-offer"
    PLATFORM_OFFER = "platform-offer"
    APPROVED = "approved"
    ACTIVE = "active"
    ENDED = "ended"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    LAPSED = "lapsed"

    @property
    def is_final(self) -> bool:
        return not ALLOWED[self]

    @property
    def is_open(self) -> bool:
        """Nothing is decided yet."""
        return self in OPEN

    @property
    def is_offer(self) -> bool:
        return self in OFFERS


STEPS: dict[State, State] = {State.TEAM: State.TEAM_OFFER, State.PLATFORM: State.PLATFORM_OFFER}
"""From the step that somebody decides to the state in which their counter-offer waits for the asker."""

OFFERS = frozenset(STEPS.values())
OPEN = frozenset(STEPS) | OFFERS
_WAYS_OUT = frozenset({State.WITHDRAWN, State.LAPSED})

ALLOWED: dict[State, frozenset[State]] = {
    State.TEAM: frozenset({State.PLATFORM, State.TEAM_OFFER, State.REJECTED}) | _WAYS_OUT,
    State.PLATFORM: frozenset({State.APPROVED, State.PLATFORM_OFFER, State.REJECTED}) | _WAYS_OUT,
    State.TEAM_OFFER: frozenset({State.PLATFORM}) | _WAYS_OUT,
    State.PLATFORM_OFFER: frozenset({State.APPROVED}) | _WAYS_OUT,
    State.APPROVED: frozenset({State.ACTIVE, State.ENDED, State.WITHDRAWN}),
    State.ACTIVE: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
    State.REJECTED: frozenset(),
    State.WITHDRAWN: frozenset(),
    State.LAPSED: frozenset(),
}
"""An approved request whose whole time has passed ends without having begun."""
