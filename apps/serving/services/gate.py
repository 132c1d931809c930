"""What the gateway is told of a request to a deployed model: let it through, or why not.

Asked for each request, so it is quick: what a key opens is remembered for `REMEMBERED` seconds, which is how long a
revoked key may still work; counting is one call to Valkey. While Valkey is away each process counts for itself: models
go on answering, and a key gets its rate from each process instead of from all together.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.adapters.counter import counter
from apps.adapters.errors import Unavailable
from apps.serving.domain.phases import Wanted
from apps.serving.models import Deployment, DeploymentKey
from apps.serving.services.keys import PASS_START, digest, read_pass

log = structlog.get_logger(__name__)

REMEMBERED = 2.0
MOST_REMEMBERED = 10_000
PLAYGROUND_RATE = 60
USED_AGAIN = timedelta(minutes=1)
"""When a key was last used is written at most this often."""


class Answer(StrEnum):
    """Why a request is let through or not."""

    LET_IN = "let-in"
    NO_KEY = "no-key"
    BAD_KEY = "bad-key"
    OTHER_DEPLOYMENT = "other-deployment"
    NOT_FOUND = "not-found"
    TOO_MANY = "too-many"


CODES: dict[Answer, int] = {
    Answer.LET_IN: 200,
    Answer.NO_KEY: 401,
    Answer.BAD_KEY: 401,
    Answer.OTHER_DEPLOYMENT: 403,
    Answer.NOT_FOUND: 404,
    Answer.TOO_MANY: 429,
}


@dataclass(frozen=True)
class Opens:
    """What a credential opens: one deployment, so many times a minute. `name` stands in the gateway's log."""

    name: str
    deployment_id: str
    tenant_id: int
    rate: int


@dataclass(frozen=True)
class Verdict:
    """`left` of `rate` requests can still be made in the `seconds` until the minute is over."""

    answer: Answer
    name: str = ""
    rate: int = 0
    left: int = 0
    seconds: int = 0

    @property
    def code(self) -> int:
        return CODES[self.answer]


def authorize(authorization: str, deployment_id: str) -> Verdict:
    """Whether a request with this Authorization header may reach this deployment ("" for none).

    Without a good key every answer is 401, so nobody learns what is deployed here.
    """
    scheme, _space, credential = authorization.strip().partition(" ")
    credential = credential.strip()
    if scheme.lower() != "bearer" or not credential:
        return Verdict(Answer.NO_KEY)
    opens = _opened(credential)
    if opens is None:
        return Verdict(Answer.BAD_KEY)
    if opens.deployment_id != deployment_id:
        return Verdict(_elsewhere(opens, deployment_id), opens.name)
    now = time.time()
    minute, seconds = int(now // 60), 60 - int(now % 60)
    count = _count(opens.name, minute)
    left = max(0, opens.rate - count)
    answer = Answer.LET_IN if count <= opens.rate else Answer.TOO_MANY
    return Verdict(answer, opens.name, opens.rate, left, seconds)


def _elsewhere(opens: Opens, deployment_id: str) -> Answer:
    """A key for another deployment: members of the same tenant may know that this one is there."""
    same = Deployment.objects.for_system().filter(pk=deployment_id, tenant_id=opens.tenant_id)
    return Answer.OTHER_DEPLOYMENT if same.exclude(wanted=Wanted.REMOVE).exists() else Answer.NOT_FOUND


# --- what a credential opens, remembered for a moment ---------------------------------------------------------------

_remembered: dict[str, tuple[float, Opens]] = {}


def _opened(credential: str) -> Opens | None:
    kept, now = digest(credential), time.monotonic()
    known = _remembered.get(kept)
    if known and known[0] > now:
        return known[1]
    _remembered.pop(kept, None)
    found = _passed(credential) if credential.startswith(PASS_START) else _key(kept)
    if found is not None:
        if len(_remembered) >= MOST_REMEMBERED:
            _remembered.clear()
        _remembered[kept] = (now + REMEMBERED, found)
    return found


def _key(kept: str) -> Opens | None:
    """One query, by the key's hash."""
    keys = DeploymentKey.objects.for_system().filter(digest=kept, revoked_at=None)
    key = keys.exclude(deployment__wanted=Wanted.REMOVE).first()
    if key is None:
        return None
    again = Q(last_used_at=None) | Q(last_used_at__lt=timezone.now() - USED_AGAIN)
    if key.last_used_at is None or key.last_used_at < timezone.now() - USED_AGAIN:
        DeploymentKey.objects.for_system().filter(again, pk=key.pk).update(last_used_at=timezone.now())
    return Opens(f"key-{key.pk}", key.deployment_id, key.tenant_id, key.requests_per_minute)


def _passed(credential: str) -> Opens | None:
    """A playground's pass, of a person who may still use it."""
    told = read_pass(credential)
    here = Deployment.objects.for_system().exclude(wanted=Wanted.REMOVE)
    deployment = here.filter(pk=told["deployment"]).only("tenant_id").first() if told else None
    if told is None or deployment is None:
        return None
    actor = accounts.actor_of(told["user"])
    if actor is None or not actor.may(Permission.DEPLOYMENT_USE, deployment.tenant_id):
        return None
    return Opens(f"playground-{told['user']}", deployment.pk, deployment.tenant_id, PLAYGROUND_RATE)


# --- counting -------------------------------------------------------------------------------------------------------


class _Own:
    """The counts of this process, of this minute only."""

    def __init__(self) -> None:
        self._minute, self._counts = 0, Counter[str]()
        self._lock = threading.Lock()

    def count(self, key: str, minute: int) -> int:
        with self._lock:
            if minute != self._minute:
                self._minute, self._counts = minute, Counter()
            self._counts[key] += 1
            return self._counts[key]


@functools.cache
def _own() -> _Own:
    return _Own()


def _count(key: str, minute: int) -> int:
    try:
        return counter(settings.REDIS_URL).count(key, minute)
    except Unavailable as error:
        log.warning("rate_counted_alone", error=error.text)
        return _own().count(key, minute)
