"""What an answer other than 2xx means: may it be tried again, and what may be shown of it.

Code and reason are not what one expects (a mistake in an apply is a 500, a webhook's no a 400 without a reason, a
missing credential a 403), so the text is read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.adapters.errors import Conflict, NotFound, OutsideError, Refused, Unavailable
from apps.adapters.kubernetes.objects import is_secret
from apps.adapters.retrying import retry_after

TEXT_LIMIT = 1000
CREDENTIAL_RETRY = 30.0

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Quota, Pod Security and other admission say 403 Forbidden too; only RBAC names the account.
_RBAC = re.compile(r'User "([^"]*)" cannot ')


class NotInstalled(Refused):
    """The server does not know this kind at all; the object may well have existed before."""


class AnotherObject(Conflict):
    """The name is taken by an object that is not the one we knew (another uid)."""


class NodeGone(Refused):
    """A pod's log cannot be had because its node is gone, does not listen, or does not know the pod (yet)."""


class RightMissing(Refused):
    """The account that asked lacks a right. A server that has just started says so too, until it has read the roles.

    `account` is (namespace, name) of the service account, two empty texts for another user.
    """

    def __init__(self, text: str, *, code: int | None = None, account: tuple[str, str] = ("", "")) -> None:
        super().__init__(text, code=code)
        self.account = account


class AccountMissing(RightMissing):
    """The account that was to ask is not there, so it has no rights at all."""


class CredentialRefused(Unavailable):
    """Our own token is wrong, over, or missing. Nothing the user asked for is at fault."""


@dataclass(frozen=True)
class Answer:
    """A refusal as read: `status` is {} when the body was no Status object, `text` its message or the plain body."""

    code: int
    path: str
    text: str
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    is_status: bool = False

    @property
    def causes(self) -> set[str]:
        causes = self.details.get("causes") or []
        return {str(cause.get("reason", "")) for cause in causes if isinstance(cause, dict)}


def read(code: int, headers: Mapping[str, str], body: bytes, path: str) -> Answer:
    """Read a body of any kind: Status, plain text, or something else entirely."""
    status = _status(body)
    if status is None:
        return Answer(
            code, path, body[: 4 * TEXT_LIMIT].decode("utf-8", "replace").strip(), retry_after=retry_after(headers)
        )
    details = status.get("details")
    return Answer(
        code,
        path,
        str(status.get("message") or ""),
        str(status.get("reason") or ""),
        details if isinstance(details, dict) else {},
        retry_after(headers),
        is_status=True,
    )


def failure(answer: Answer) -> OutsideError:
    """The error this answer stands for. Its text is cut, and empty of anything an answer about Secrets may quote."""
    kind = _classes(answer)
    text = shown(answer)
    if issubclass(kind, Unavailable):
        wait = CREDENTIAL_RETRY if kind is CredentialRefused else 1.0
        return kind(text, code=answer.code, retry_after=answer.retry_after if answer.retry_after is not None else wait)
    if issubclass(kind, RightMissing):
        return kind(text, code=answer.code, account=_account(answer))
    return kind(text, code=answer.code)


def is_credential_fault(answer: Answer) -> bool:
    """401, or a 403 that names the anonymous user: what a request without a token, or with an empty one, gets."""
    return answer.code == 401 or (answer.code == 403 and "system:anonymous" in answer.text)


def shown(answer: Answer) -> str:
    """The text a person may see."""
    if is_secret(answer.path) or str(answer.details.get("kind", "")).lower() in {"secret", "secrets"}:
        return f"The API server answered {answer.code} {answer.reason} about a Secret; its text is not kept.".replace(
            "  ", " "
        )
    return cut(answer.text or f"HTTP {answer.code}")


def cut(text: str) -> str:
    """At most 1,000 characters, without control characters."""
    text = _CONTROL.sub(" ", text)
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 1] + "…"


def _classes(answer: Answer) -> type[OutsideError]:
    if is_credential_fault(answer):
        return CredentialRefused
    if answer.path.endswith("/log") and _node_gone(answer):
        return NodeGone
    if answer.code == 404:
        # Only a Status that names something speaks of an object; the other two faces mean an unknown kind.
        return NotFound if answer.details.get("name") else NotInstalled
    if answer.code == 409 or (answer.code == 422 and "metadata.uid" in answer.text):
        return _conflict(answer)
    if answer.code == 429:
        return Refused if "DisruptionBudget" in answer.causes else Unavailable
    if answer.code == 403:
        return _forbidden(answer)
    if answer.code == 500:
        return Refused if answer.is_status and answer.reason != "InternalError" else Unavailable
    return Unavailable if answer.code > 500 or answer.code in (408, 410) else Refused


def _forbidden(answer: Answer) -> type[OutsideError]:
    if "status unknown for quota" in answer.text:
        return Unavailable  # a quota made a moment ago; its controller has not counted yet
    return RightMissing if _RBAC.search(answer.text) else Refused


def _account(answer: Answer) -> tuple[str, str]:
    """Read from the server's words, as those about Secrets are kept from everybody else."""
    found = _RBAC.search(answer.text)
    parts = found[1].split(":") if found else []
    return (parts[2], parts[3]) if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"] else ("", "")


def _conflict(answer: Answer) -> type[Conflict]:
    lost = answer.code == 422 or "precondition" in answer.text or "uid mismatch" in answer.text
    return AnotherObject if lost else Conflict


def _node_gone(answer: Answer) -> bool:
    pod = answer.path.split("/")[-2]
    if answer.code == 404:
        named = answer.details.get("name")
        # It names the node, and calls it a pod; or it passes on that a kubelet just started knows no pods yet.
        return bool(named) and (named != pod or answer.details.get("kind") == "pods/log")
    return answer.code in (500, 502) and not answer.reason and "dial tcp" in answer.text


def _status(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) and document.get("kind") == "Status" else None
