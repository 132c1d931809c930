"""The use-cases of served models: the one door for pages, REST and other apps."""

from apps.serving.domain.problems import InvalidRequest, Problem
from apps.serving.models import Deployment, DeploymentKey
from apps.serving.services.control import NotNow, may_control, remove, require_control, scale, start, stop
from apps.serving.services.deploy import KeyReused, Request, deploy
from apps.serving.services.gate import Answer, Verdict, authorize
from apps.serving.services.keys import keys_of, make_key, playground_pass, revoke_key
from apps.serving.services.messages import problem_text, reason_text
from apps.serving.services.reading import address_of, history_of, manifests_of, replicas_of, steps_of

__all__ = [
    "Answer",
    "Deployment",
    "DeploymentKey",
    "InvalidRequest",
    "KeyReused",
    "NotNow",
    "Problem",
    "Request",
    "Verdict",
    "address_of",
    "authorize",
    "deploy",
    "history_of",
    "keys_of",
    "make_key",
    "manifests_of",
    "may_control",
    "playground_pass",
    "problem_text",
    "reason_text",
    "remove",
    "replicas_of",
    "require_control",
    "revoke_key",
    "scale",
    "start",
    "steps_of",
    "stop",
]
