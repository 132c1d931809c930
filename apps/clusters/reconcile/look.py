"""One look at a cluster with one credential: does it answer, who are we there, what may we do, what is installed."""

from __future__ import annotations

import functools
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.utils import timezone

from apps.adapters.errors import NotFound, OutsideError
from apps.adapters.kubernetes import Endpoint, KubeApi, NotInstalled
from apps.adapters.kubernetes.answers import CredentialRefused, cut
from apps.clusters.domain import rights
from apps.clusters.domain import token as tokens
from apps.clusters.domain.checks import (
    ABSENT,
    EXTRAS,
    FAILED,
    PASSED,
    VOLCANO_APIS,
    VOLCANO_DEPLOYMENTS,
    WARN_DAYS,
    WARNED,
    Check,
    Operator,
    daemon_of,
    days_left,
    is_old,
)
from apps.clusters.services.checking import Findings

MANIFEST = Path(settings.BASE_DIR) / "deploy" / "cluster" / "portal.yaml"
"""What an operator applies. The rights it gives are those that are needed."""
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_TAG = re.compile(r":v?(\d[\w.-]{0,38})(@|$)")

Progress = Callable[[Sequence[Check]], None]


@dataclass(frozen=True)
class Asked:
    """What to look at. `uid` is the cluster's as known from before, "" for none; `others` names clusters by theirs."""

    server: str
    ca_pem: str
    token: str = field(repr=False)
    uid: str
    others: Mapping[str, str]


@functools.cache
def needed_rights() -> frozenset[rights.Right]:
    return rights.needed(yaml.safe_load_all(MANIFEST.read_text()))


class Stop(Exception):
    """Nothing further can be asked."""


def look(asked: Asked, progress: Progress = lambda checks: None) -> Findings:
    """Check everything, telling `progress` after each step. Never raises for what a cluster does."""
    one = _Look(asked, progress)
    try:
        one.run()
    except Stop:
        pass
    finally:
        one.close()
    told = tokens.read(asked.token)
    account = one.account or told.subject
    return Findings(one.checks, one.operators, one.uid, one.version, account, told.expires)


class _Look:
    def __init__(self, asked: Asked, progress: Progress) -> None:
        self._asked, self._progress = asked, progress
        self._api: KubeApi | None = None
        self.checks: list[Check] = []
        self.operators: list[Operator] = []
        self.uid = self.version = self.account = ""

    def close(self) -> None:
        if self._api is not None:
            self._api.close()

    def run(self) -> None:
        """Make the checks in the order of NEEDED, then look at what else is there. Raises Stop."""
        self._token()
        api = self._api = self._connection()
        self._reach(api)
        self._identity(api)
        for key, check in (("same", self._same), ("rights", self._rights), ("bounds", self._bounds)):
            self._guarded(key, api, check)
        self._guarded("volcano", api, self._volcano)
        self._daemons(api)
        for key in EXTRAS:
            self._guarded(key, api, lambda api, key=key: self._extra(api, key))  # type: ignore[misc]

    def _note(self, key: str, state: str, code: str = "", text: str = "", **params: str) -> None:
        self.checks.append(Check(key, state, code, params, cut(text)))
        self._progress(self.checks)

    def _guarded(self, key: str, api: KubeApi, check: Callable[[KubeApi], None]) -> None:
        try:
            check(api)
        except OutsideError as error:
            self._note(key, FAILED, "unanswered", error.text)

    def _token(self) -> None:
        if not self._asked.token:
            self._note("token", FAILED, "gone")
            raise Stop
        expires = tokens.read(self._asked.token).expires
        if expires is None:
            self._note("token", PASSED, "endless")
            return
        left, date = days_left(expires, timezone.now()), expires.date().isoformat()
        if left < 0:
            self._note("token", FAILED, "over", date=date)
            raise Stop
        self._note("token", WARNED if left < WARN_DAYS[0] else PASSED, "until", date=date, days=str(left))

    def _connection(self) -> KubeApi:
        token = self._asked.token
        endpoint = Endpoint(self._asked.server, self._asked.ca_pem or None, lambda fresh=False: token)
        try:
            return KubeApi(endpoint)
        except ssl.SSLError as error:
            self._note("reach", FAILED, "tls", str(error))
            raise Stop from error

    def _reach(self, api: KubeApi) -> None:
        try:
            self.version = api.version()
        except CredentialRefused as error:
            self._note("reach", PASSED, "answers")
            self._note("identity", FAILED, "refused", error.text)
            raise Stop from error
        except OutsideError as error:
            code = "tls" if "CERTIFICATE_VERIFY_FAILED" in error.text or "SSLError" in error.text else "silent"
            self._note("reach", FAILED, code, error.text)
            raise Stop from error
        old = is_old("kubernetes", self.version)
        self._note("reach", WARNED if old else PASSED, "old" if old else "version", version=self.version)

    def _identity(self, api: KubeApi) -> None:
        body = _review("SelfSubjectReview", "authentication.k8s.io/v1", {})
        try:
            review = api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body).object
        except NotInstalled:  # before Kubernetes 1.28
            self._note("identity", PASSED, "untold")
            return
        except OutsideError as error:
            code = "refused" if isinstance(error, CredentialRefused) else "unanswered"
            self._note("identity", FAILED, code, error.text)
            raise Stop from error
        self.account = str(_under(review, "status", "userInfo", "username") or "")[:253]
        if self.account == "system:anonymous":
            self._note("identity", FAILED, "refused")
            raise Stop
        self._note("identity", PASSED, "known", account=self.account)

    def _same(self, api: KubeApi) -> None:
        """A cluster is told by the uid of its kube-system, which lives as long as it does."""
        try:
            self.uid = str(_under(api.get("/api/v1/namespaces/kube-system"), "metadata", "uid") or "")[:60]
        except (NotFound, NotInstalled):
            self._note("same", PASSED, "untold")
            return
        if not self.uid:
            self._note("same", FAILED, "unanswered")
        elif self._asked.uid and self._asked.uid != self.uid:
            self._note("same", FAILED, "another")
        elif self.uid in self._asked.others:
            self._note("same", FAILED, "twice", name=self._asked.others[self.uid])
        else:
            self._note("same", PASSED, "same" if self._asked.uid else "new")

    def _rights(self, api: KubeApi) -> None:
        body = _review("SelfSubjectRulesReview", "authorization.k8s.io/v1", {"namespace": rights.NAMESPACE})
        review = api.create(f"{AUTHORIZATION}/selfsubjectrulesreviews", body).object
        told = _under(review, "status", "resourceRules")
        rules = [rule for rule in told if isinstance(rule, dict)] if isinstance(told, list) else []
        wanted = needed_rights()
        lacking = rights.missing(rules, wanted)
        if lacking:
            # A cluster may grant what no rule tells (a webhook, a built-in group): asked one by one, that counts too.
            lacking = [right for right in lacking if not self._may(api, right)]
        if lacking:
            self._note("rights", FAILED, "missing", rights=rights.in_words(lacking))
        else:
            self._note("rights", PASSED, "all", count=str(len(wanted)))

    def _bounds(self, api: KubeApi) -> None:
        for code, some in rights.FORBIDDEN.items():
            for right in some:
                if self._may(api, right):
                    self._note("bounds", FAILED, code, right=rights.in_words([right]))
                    return
        reads = self._may(api, rights.READS_SECRETS)
        self._note("bounds", WARNED if reads else PASSED, "secrets" if reads else "narrow")

    def _may(self, api: KubeApi, right: rights.Right) -> bool:
        resource, _slash, sub = right.resource.partition("/")
        attributes = {"group": right.group, "resource": resource, "subresource": sub, "verb": right.verb}
        attributes["name"] = right.name
        body = _review("SelfSubjectAccessReview", "authorization.k8s.io/v1", {"resourceAttributes": attributes})
        answer = api.create(f"{AUTHORIZATION}/selfsubjectaccessreviews", body).object
        return _under(answer, "status", "allowed") is True

    def _volcano(self, api: KubeApi) -> None:
        lacking = [one for one in VOLCANO_APIS if not _serves(api, one)]
        if lacking:
            self._note("volcano", FAILED, "absent", apis=", ".join(lacking))
            return
        version = self._version_of(api, "volcano", VOLCANO_DEPLOYMENTS)
        self._installed("volcano", version, WARNED if is_old("volcano", version) else PASSED)

    def _extra(self, api: KubeApi, key: str) -> None:
        extra = EXTRAS[key]
        if any(_serves(api, one) for one in extra.apis):
            self._installed(key, self._version_of(api, key, extra.deployments), PASSED)
        else:
            self._note(key, ABSENT, "absent")

    def _installed(self, key: str, version: str, state: str) -> None:
        if version:
            self._note(key, state, "old" if state == WARNED else "version", version=version)
        else:
            self._note(key, PASSED, "there")

    def _daemons(self, api: KubeApi) -> None:
        """Note the DaemonSets that nodes depend on. What may not be read of them is not noted: `rights` says so."""
        with suppress(OutsideError):
            for one in api.list("/apis/apps/v1/daemonsets"):
                if key := daemon_of(str(_under(one, "metadata", "name"))):
                    self.operators.append(_daemon(key, one))

    def _version_of(self, api: KubeApi, key: str, names: Sequence[str]) -> str:
        """The version that its deployments say, which are noted on the way; "" where there are none."""
        found = [
            _operator(key, one)
            for name in names
            for one in api.list("/apis/apps/v1/deployments", field_selector=f"metadata.name={name}")
        ]
        self.operators += found
        return next((one.version for one in found if one.version), "")


def _review(kind: str, api: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind} | ({"spec": spec} if spec else {})


def _serves(api: KubeApi, group_version: str) -> bool:
    try:
        api.get(f"/apis/{group_version}")
    except (NotFound, NotInstalled):
        return False
    return True


def _operator(key: str, deployment: Mapping[str, Any]) -> Operator:
    desired = _count(_under(deployment, "spec", "replicas"), 1)
    return _running(key, deployment, "Deployment", (_count(_under(deployment, "status", "readyReplicas")), desired))


def _daemon(key: str, daemons: Mapping[str, Any]) -> Operator:
    ready, desired = (_count(_under(daemons, "status", name)) for name in ("numberReady", "desiredNumberScheduled"))
    return _running(key, daemons, "DaemonSet", (ready, desired))


def _running(key: str, workload: Mapping[str, Any], kind: str, pods: tuple[int, int]) -> Operator:
    """`pods`: ready and wanted."""
    containers = _under(workload, "spec", "template", "spec", "containers")
    image = _under(containers[0], "image") if isinstance(containers, list) and containers else ""
    tag = _TAG.search(str(image))
    return Operator(
        key=key,
        name=str(_under(workload, "metadata", "name"))[:253],
        namespace=str(_under(workload, "metadata", "namespace"))[:63],
        ready=pods[0],
        desired=pods[1],
        version=tag[1] if tag else "",
        kind=kind,
    )


def _count(value: Any, otherwise: int = 0) -> int:
    return value if isinstance(value, int) else otherwise


def _under(body: Any, *names: str) -> Any:
    """What stands at a path of an answer, None where it does not go on: nobody knows what answers at an address."""
    for name in names:
        body = body.get(name) if isinstance(body, dict) else None
    return body
