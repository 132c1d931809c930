"""In and out, by way of the provider."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import auth
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from apps.accounts import oidc, services
from apps.accounts.models import User
from apps.accounts.scoping import public
from apps.accounts.views import answers
from apps.adapters import identity
from apps.adapters.errors import Refused, Unavailable
from apps.adapters.identity.calls import is_loopback

LONGEST_SIGN_IN = 3600
"""Seconds from the button to the callback."""


@public
@never_cache
@require_GET
def sign_in(request: HttpRequest) -> HttpResponse:
    """The page with the one button."""
    there = answers.safe_next(request, request.GET.get("next"))
    if request.user.is_authenticated:
        return redirect(there or settings.LOGIN_REDIRECT_URL)
    start = f"{reverse('accounts:oidc-start')}?{urlencode({'next': there})}"
    context = {"start": start, "provider": answers.provider_name(), "trouble": services.provider_trouble()}
    return render(request, "accounts/sign_in.html", context)


@public
class AuthenticateView(OIDCAuthenticationRequestView):  # type: ignore[misc]
    """Sends the browser to the provider. Where to go afterwards is kept with this attempt, not one for all tabs."""

    def get(self, request: HttpRequest) -> HttpResponse:
        if _is_alias(request):
            return HttpResponseRedirect(settings.BASE_URL + request.get_full_path())
        response: HttpResponse = super().get(request)
        there = request.session.pop("oidc_login_next", None)
        newest = next(reversed(request.session["oidc_states"].values()))
        newest["next"] = answers.safe_next(request, there)
        request.session.modified = True
        return response

    def get_extra_params(self, request: HttpRequest) -> dict[str, str]:
        chinese = (translation.get_language() or "").startswith("zh")
        return {"ui_locales": "zh-CN zh" if chinese else "en"}


def _is_alias(request: HttpRequest) -> bool:
    """Whether this machine was called by another of its names: the provider comes back to one only."""
    here, base = urlsplit(f"//{request.get_host()}"), urlsplit(settings.BASE_URL)
    return here.netloc != base.netloc and is_loopback(here.hostname or "") and is_loopback(base.hostname or "")


@public
class CallbackView(OIDCAuthenticationCallbackView):  # type: ignore[misc]
    """Where the provider sends the browser back to. Nothing here depends on a session that exists already, and a
    sign-in that fails leaves such a session as it was."""

    def get(self, request: HttpRequest) -> HttpResponse:
        attempt = self._take_attempt(request)
        if attempt is None:
            if request.user.is_authenticated:  # the back button, or a double click
                return redirect(settings.LOGIN_REDIRECT_URL)
            return answers.refused(request, "stale")
        try:
            return self._finish(request, attempt)
        except Unavailable as error:
            services.trouble()
            return answers.unavailable(request, error.retry_after)
        except identity.InvalidGrant:
            return answers.refused(request, "stale")
        except Refused as error:
            services.refuse_sign_in(error.text)
            return answers.refused(request, error.text)
        except SuspiciousOperation:
            services.refuse_sign_in("suspicious")
            return answers.refused(request, "suspicious")

    def _take_attempt(self, request: HttpRequest) -> dict[str, Any] | None:
        """The attempt this callback belongs to, removed from the session: each is good once."""
        states = request.session.get("oidc_states")
        attempt = states.pop(request.GET.get("state", ""), None) if isinstance(states, dict) else None
        if attempt is None:
            return None
        request.session.modified = True
        # Asking the provider is slow. Saved now, read again, so that what other tabs write meanwhile is not lost.
        request.session.save()
        request.session = request.session.__class__(request.session.session_key)
        return attempt if time.time() - attempt["added_on"] < LONGEST_SIGN_IN else None

    def _finish(self, request: HttpRequest, attempt: dict[str, Any]) -> HttpResponse:
        if request.GET.get("iss", settings.OIDC_ISSUER) != settings.OIDC_ISSUER:
            raise Refused("callback_iss")
        error = request.GET.get("error")
        if error in ("server_error", "temporarily_unavailable"):
            raise Unavailable("the provider sent the browser back with an error", retry_after=10)
        if error or not request.GET.get("code"):
            raise Refused("access_denied" if error == "access_denied" else "provider_error")
        user = auth.authenticate(request, nonce=attempt["nonce"], code_verifier=attempt["code_verifier"])
        if not isinstance(user, User):
            raise Refused("nobody")
        before = request.session.session_key
        auth.login(request, user)
        if request.session.session_key is None:
            request.session.save()
        agent = request.headers.get("User-Agent", "")
        key = request.session.session_key or ""
        services.open_session(user, key, request.granted, agent=agent, replaces=before)  # type: ignore[attr-defined]
        return HttpResponseRedirect(answers.after_sign_in(request, attempt.get("next")))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session here, then at the provider, which sends the browser back to the signed-out page."""
    parameters, url = oidc.logout_parameters(request), oidc.logout_url(request)
    services.end_session(request.session.session_key or "")
    auth.logout(request)
    if request.headers.get("HX-Request") == "true":
        response = HttpResponse(status=204)
        response["HX-Redirect"] = url
        return response
    if len(parameters.get("id_token_hint", "")) > oidc.LONGEST_HINT:
        context = {"action": settings.OIDC_OP_END_SESSION_ENDPOINT, "parameters": parameters}
        return render(request, "accounts/sign_out_at_provider.html", context)
    return HttpResponseRedirect(url)


@public
@require_GET
def signed_out(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/signed_out.html", {"provider": answers.provider_name()})


@public
@csrf_exempt
@never_cache
@require_POST
def backchannel_logout(request: HttpRequest) -> HttpResponse:
    """The provider says that a session is over (OpenID Connect Back-Channel Logout 1.0)."""
    try:
        said = identity.verify_logout_token(request.POST.get("logout_token"))
        services.end_at_provider(said)
    except Refused as error:
        return JsonResponse({"error": "invalid_request", "error_description": error.text}, status=400)
    except Unavailable as error:
        response = JsonResponse({"error": "temporarily_unavailable"}, status=503)
        response["Retry-After"] = str(round(error.retry_after))
        return response
    return HttpResponse()
