"""Questions about oneself: SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectReview."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver import bodies
from apps.localcluster.apiserver.answers import Answer, json_answer
from apps.localcluster.apiserver.errors import bad_request, invalid, invalid_value
from apps.localcluster.apiserver.rbac import Ask, Rbac
from apps.localcluster.apiserver.requests import Request, User

Object = dict[str, Any]


async def review(rbac: Rbac, request: Request) -> Answer:
    """Answer a review with 201."""
    body, kind, user = bodies.parse(request).item, request.kind, request.user
    bodies.check_type(request, body)
    spec = body.get("spec") or {}
    if kind.kind == "SelfSubjectReview":
        found = {"status": {"userInfo": _info(user)}}
    elif kind.kind == "SelfSubjectRulesReview":
        found = {"spec": {}, "status": _rules(rbac, user, spec.get("namespace", ""))}
    else:
        found = {"spec": spec, "status": _access(rbac, user, spec)}
    named = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": body.get("metadata") or {}}
    return json_answer(named | found, 201)


def _info(user: User) -> Object:
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": user.extra}
    return {name: value for name, value in info.items() if value}


def _rules(rbac: Rbac, user: User, namespace: str) -> Object:
    if not namespace:
        raise bad_request("no namespace on request")
    rules = rbac.rules_of(user, namespace)
    return {
        "resourceRules": [rule for rule in rules if not rule.get("nonResourceURLs")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }


def _access(rbac: Rbac, user: User, spec: Object) -> Object:
    asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if asked is None and path is not None:
        return {"allowed": rbac.allows_path(user, path.get("verb", ""), path.get("path", ""))}
    if asked is None or path is not None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        fault = invalid_value("spec.resourceAttributes", spec or None, text)
        raise invalid(("authorization.k8s.io", ""), "", [fault])
    verb, group, namespace, name = (asked.get(field, "") for field in ("verb", "group", "namespace", "name"))
    resource = "/".join(filter(None, (asked.get("resource", ""), asked.get("subresource", ""))))
    reason = rbac.reason(user, Ask(verb, group, resource, namespace, name))
    return {"allowed": reason is not None} | ({"reason": reason} if reason else {})
