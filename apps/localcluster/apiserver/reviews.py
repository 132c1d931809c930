"""Questions about oneself: SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectReview."""

from __future__ import annotations

from typing import Any

from apps.localcluster.apiserver import bodies
from apps.localcluster.apiserver.answers import Answer, json_answer
from apps.localcluster.apiserver.errors import Cause, bad_request, invalid, invalid_value
from apps.localcluster.apiserver.kinds import Kind
from apps.localcluster.apiserver.rbac import Rbac
from apps.localcluster.apiserver.requests import Request, Target

Object = dict[str, Any]


async def review(rbac: Rbac, request: Request) -> Answer:
    """Answer a review with 201."""
    body = bodies.parse(request).item
    bodies.check_type(request, body)
    answer: Object = {
        "kind": request.kind.kind,
        "apiVersion": request.kind.api_version,
        "metadata": body.get("metadata") or {},
    }
    if request.kind.kind == "SelfSubjectReview":
        info: Object = {"username": request.user.name, "groups": list(request.user.groups)}
        if request.user.uid:
            info["uid"] = request.user.uid
        if request.user.extra:
            info["extra"] = request.user.extra
        return json_answer(answer | {"status": {"userInfo": info}}, 201)
    spec = body.get("spec") or {}
    if request.kind.kind == "SelfSubjectRulesReview":
        return json_answer(answer | _rules(rbac, request, spec), 201)
    return json_answer(answer | _access(rbac, request, spec), 201)


def _rules(rbac: Rbac, request: Request, spec: Object) -> Object:
    namespace = spec.get("namespace", "")
    if not namespace:
        raise bad_request("no namespace on request")
    resources, paths = [], []
    for rule in rbac.rules_of(request.user, namespace):
        if rule.get("nonResourceURLs"):
            paths.append({"verbs": rule.get("verbs"), "nonResourceURLs": rule["nonResourceURLs"]})
        else:
            names = ("verbs", "apiGroups", "resources", "resourceNames")
            resources.append({name: rule[name] for name in names if name in rule})
    status = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    return {"spec": {}, "status": status}


def _access(rbac: Rbac, request: Request, spec: Object) -> Object:
    asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (asked is None) == (path is None):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid(("authorization.k8s.io", ""), "", [_fault("spec.resourceAttributes", spec, text)])
    if path is not None:
        allowed = rbac.allows_path(request.user, path.get("verb", ""), path.get("path", ""))
        return {"spec": spec, "status": {"allowed": allowed}}
    assert asked is not None
    kind = Kind(asked.get("group", ""), asked.get("version", ""), "", asked.get("resource", ""))
    target = Target(
        "",
        kind.group,
        kind.version,
        kind.plural,
        asked.get("namespace", ""),
        asked.get("name", ""),
        asked.get("subresource", ""),
    )
    question = Request("POST", target, {}, {}, request.user, kind)
    reason = rbac.reason(request.user, asked.get("verb", ""), question)
    status: Object = {"allowed": reason is not None}
    if reason:
        status["reason"] = reason
    return {"spec": spec, "status": status}


def _fault(field: str, value: Object, text: str) -> Cause:
    return invalid_value(field, value or None, text)
