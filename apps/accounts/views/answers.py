"""Answers that several views and middlewares give: go and sign in, no, not now."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

REASONS = {
    "access_denied": gettext_lazy("The identity provider did not let you in."),
    "disabled": gettext_lazy("Your account here is switched off. Ask a platform operator."),
    "stale": gettext_lazy("This sign-in was used already, or it took too long. Start again."),
    "no_refresh_token": gettext_lazy(
        "The identity provider gave no refresh token. A platform operator must allow it for this portal."
    ),
}
_OTHER_REASON = gettext_lazy(
    "What the identity provider sent does not hold. Start again; if it stays, tell a platform operator."
)


def safe_next(request: HttpRequest, url: str | None) -> str:
    """`url` when it leads to this portal, else ""; only ever a path, so no scheme or host can be slipped in."""
    if not url or not url_has_allowed_host_and_scheme(url, {request.get_host()}, require_https=request.is_secure()):
        return ""
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return path if path.startswith("/") and not path.startswith("//") else ""


def provider_name() -> str:
    """What people know their provider as: the operator's word for it, else its host."""
    if settings.PORTAL_OIDC_NAME:
        return str(settings.PORTAL_OIDC_NAME)
    return _("the demo's provider") if settings.DEMO else urlsplit(settings.OIDC_ISSUER).hostname or ""


def after_sign_in(request: HttpRequest, url: str | None) -> str:
    return safe_next(request, url) or resolve_url(settings.LOGIN_REDIRECT_URL)


def wants_json(request: HttpRequest) -> bool:
    """Whether the caller is a script: the REST API, or a fetch() of our own modules."""
    return request.path.startswith("/api/") or "application/json" in request.headers.get("Accept", "")


def problem(status: int, title: str, *, retry_after: int | None = None) -> HttpResponse:
    """RFC 9457."""
    response = JsonResponse(
        {"type": "about:blank", "title": title, "status": status},
        status=status,
        content_type="application/problem+json",
    )
    if retry_after is not None:
        response["Retry-After"] = str(retry_after)
    return response


def sign_in_first(request: HttpRequest) -> HttpResponse:
    """Send somebody unknown to the sign-in page, and back to where they were afterwards."""
    htmx = request.headers.get("HX-Request") == "true"
    if htmx:
        here = safe_next(request, request.headers.get("HX-Current-URL"))
    elif request.method in ("GET", "HEAD"):
        here = request.get_full_path()
    else:  # coming back to a POST would lead nowhere
        here = safe_next(request, request.headers.get("Referer"))
    address = f"{reverse('accounts:sign-in')}?{urlencode({'next': here or '/'})}"
    if htmx:
        # A redirect would be followed inside the request, and the sign-in page end up in some corner of the old page.
        response = HttpResponse(status=204)
        response["HX-Redirect"] = address
        return response
    if wants_json(request) or request.headers.get("Sec-Fetch-Dest", "document") == "empty":
        return problem(401, _("Sign in first."))
    return HttpResponseRedirect(address)


def refused(request: HttpRequest, reason: str, *, status: int = 403) -> HttpResponse:
    """A sign-in that was not let in; `reason` is a short code of ours or the provider's."""
    context = {"reason": REASONS.get(reason, _OTHER_REASON), "code": reason[:60]}
    return render(request, "accounts/refused.html", context, status=status)


def unavailable(request: HttpRequest, retry_after: float) -> HttpResponse:
    """The provider cannot be asked now."""
    seconds = max(1, round(retry_after))
    if wants_json(request):
        return problem(503, _("The identity provider does not answer. Try again."), retry_after=seconds)
    response = render(request, "accounts/unavailable.html", {"seconds": seconds}, status=503)
    response["Retry-After"] = str(seconds)
    return response
