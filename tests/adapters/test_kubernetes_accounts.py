"""Tokens asked for in an account's name: when, how often, and what is said when there is none."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from apps.adapters.errors import Unavailable
from apps.adapters.kubernetes import Endpoint, KubeApi, objects
from apps.adapters.kubernetes.accounts import LIFETIME_SECONDS, AccountToken, speak_for
from apps.adapters.kubernetes.answers import AccountMissing, RightMissing
from tests.adapters.scripted import Exchange, scripted

ACCOUNT = ("tenant-a", "maas-portal")
TOKENS = "/api/v1/namespaces/tenant-a/serviceaccounts/maas-portal/token"
POD = objects.path(objects.POD, "tenant-a", "p")


class Server:
    """Gives tokens t1, t2, …, each good until `revoked` names it."""

    def __init__(self, lifetime: int = LIFETIME_SECONDS) -> None:
        self.given, self.lifetime, self.revoked = 0, lifetime, set[str]()

    def __call__(self, call: Exchange) -> None:
        bearer = call.headers["Authorization"].removeprefix("Bearer ")
        if call.path.startswith(TOKENS):
            assert bearer == "portal"
            self.given += 1
            answer = {"spec": {"expirationSeconds": self.lifetime}, "status": {"token": f"t{self.given}"}}
            call.answer(201, {"kind": "TokenRequest"} | answer)
        elif bearer in self.revoked:
            call.answer(401, {"kind": "Status", "code": 401, "message": "Unauthorized", "reason": "Unauthorized"})
        else:
            call.answer(200, {"kind": "Pod", "bearer": bearer})


def portal(url: str) -> KubeApi:
    return KubeApi(Endpoint(url, None, lambda fresh=False: "portal"))


def test_one_token_serves_many_calls_and_none_is_asked_for_before_the_first() -> None:
    script = Server()
    with scripted(script) as server:
        api = speak_for(portal(server.url), ACCOUNT)
        assert server.requests == []
        assert {api.get(POD)["bearer"] for _ in range(5)} == {"t1"}
        body = json.loads(server.requests[0].body)
        assert (body["kind"], body["spec"]["expirationSeconds"]) == ("TokenRequest", LIFETIME_SECONDS)


@pytest.mark.parametrize("lifetime", [LIFETIME_SECONDS, 600])
def test_a_token_is_renewed_at_four_fifths_of_the_life_it_was_given(lifetime: int) -> None:
    now = 1000.0
    with scripted(Server(lifetime)) as server:
        token = AccountToken(portal(server.url), ACCOUNT, lambda: now)
        assert token() == "t1"
        now += 0.79 * lifetime
        assert token() == "t1"
        now += 0.02 * lifetime
        assert token() == "t2"
        assert token() == "t2"


def test_a_token_that_is_no_longer_taken_is_dropped_and_nobody_notices() -> None:
    """Its account was deleted and made anew, or the server's signing key changed."""
    script = Server()
    with scripted(script) as server:
        api = speak_for(portal(server.url), ACCOUNT)
        assert api.get(POD)["bearer"] == "t1"
        script.revoked.add("t1")
        assert [api.get(POD)["bearer"] for _ in range(2)] == ["t2", "t2"]
        script.revoked |= {"t2", "t3"}
        with pytest.raises(Unavailable):
            api.get(POD)
        assert api.get(POD)["bearer"] == "t4"


def status(code: int, message: str, reason: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}


def test_a_missing_account_and_a_missing_right_are_told_apart() -> None:
    own = 'User "system:serviceaccount:maas-portal:portal" cannot create resource "serviceaccounts/token"'
    theirs = (
        'secrets "x" is forbidden: User "system:serviceaccount:tenant-a:maas-portal" cannot patch resource "secrets"'
    )
    gone = status(
        404, 'serviceaccounts "maas-portal" not found', "NotFound", name="maas-portal", kind="serviceaccounts"
    )
    answers = {"gone": (404, gone), "own": (403, status(403, own, "Forbidden"))}
    for which, (code, body) in answers.items():
        answer = partial(Exchange.answer, code=code, body=body)
        with scripted(answer) as server, pytest.raises(RightMissing) as caught:
            speak_for(portal(server.url), ACCOUNT).get(POD)
        assert isinstance(caught.value, AccountMissing) == (which == "gone")
        assert caught.value.account == (ACCOUNT if which == "gone" else ("maas-portal", "portal"))
    secret = objects.path(objects.SECRET, "tenant-a", "x")
    answer = partial(Exchange.answer, code=403, body=status(403, theirs, "Forbidden", kind="secrets"))
    with scripted(answer) as server, pytest.raises(RightMissing) as caught:
        portal(server.url).get(secret)
    assert caught.value.account == ACCOUNT, "known although the text is not kept"
    assert "cannot" not in caught.value.text
