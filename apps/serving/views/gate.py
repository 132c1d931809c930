"""What the gateway asks of each request before it reaches what is published (Envoy's ext_authz): models are judged
here, anything else by whoever published it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from apps.accounts.scoping import public
from apps.adapters.gateway import DEPLOYMENT_HEADER, SECRET_HEADER
from apps.clusters import services as clusters
from apps.serving import services
from apps.serving.services import Answer, Verdict

# In English, as every program that speaks OpenAI's API expects: (type, code, message).
WORDS: dict[Answer, tuple[str, str, str]] = {
    Answer.NO_KEY: ("invalid_request_error", "missing_api_key", "Send a key: Authorization: Bearer <key>."),
    Answer.BAD_KEY: ("invalid_request_error", "invalid_api_key", "This key is unknown or was revoked."),
    Answer.OTHER_DEPLOYMENT: ("invalid_request_error", "wrong_deployment", "This key opens another deployment."),
    Answer.NOT_FOUND: ("invalid_request_error", "not_found", "No model is deployed here."),
    Answer.TOO_MANY: (
        "rate_limit_error",
        "rate_limit_exceeded",
        "This key has made its {rate} requests of this minute. Try again in {seconds} s.",
    ),
}


@public
@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest, path: str) -> HttpResponse:
    """200 lets the request of the gateway's client to this path through; 4xx is what the client is answered."""
    shown = request.headers.get(SECRET_HEADER, "")
    if not settings.GATEWAY_SECRET or not constant_time_compare(shown, settings.GATEWAY_SECRET):
        return HttpResponse("Only the gateway asks here.\n", status=403, content_type="text/plain")
    target = request.headers.get(DEPLOYMENT_HEADER, "")
    if told := clusters.judge_published(target, path, request.COOKIES):
        return HttpResponse(told.page(), status=told.code, headers={"Refresh": told.again} if told.again else None)
    verdict = services.authorize(request.headers.get("Authorization", ""), target)
    if verdict.answer is Answer.LET_IN:
        response = HttpResponse(status=200, content_type="text/plain")
    else:
        response = JsonResponse(_error(verdict), status=verdict.code)
    for name, value in _headers(verdict).items():
        response[name] = value
    return response


def _headers(verdict: Verdict) -> dict[str, str]:
    headers = {"x-maas-key": verdict.name} if verdict.name else {}
    if verdict.rate:
        headers |= {
            "x-ratelimit-limit-requests": str(verdict.rate),
            "x-ratelimit-remaining-requests": str(verdict.left),
            "x-ratelimit-reset-requests": f"{verdict.seconds}s",
        }
    if verdict.answer is Answer.TOO_MANY:
        headers["retry-after"] = str(verdict.seconds)
    if verdict.code == 401:
        headers["www-authenticate"] = "Bearer"
    return headers


def _error(verdict: Verdict) -> dict[str, Any]:
    kind, code, text = WORDS[verdict.answer]
    message = text.format(rate=verdict.rate, seconds=verdict.seconds)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
