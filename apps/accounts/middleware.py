"""What every request passes: the reader's language, whether the provider still vouches for them, who is acting."""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Callable
from typing import Any, cast

import structlog
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.middleware import AuthenticationMiddleware as DjangoAuthenticationMiddleware
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.middleware.locale import LocaleMiddleware
from django.utils import timezone, translation
from django.utils.crypto import constant_time_compare
from django.utils.functional import SimpleLazyObject
from django_structlog.middlewares import RequestMiddleware
from rest_framework.views import APIView

from apps.accounts import services
from apps.accounts.models import ProviderSession, User
from apps.accounts.scoping import is_public
from apps.accounts.types import Actor
from apps.accounts.views import answers

GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestLogMiddleware(RequestMiddleware):
    """Logs requests by path: a query holds what people search for, and at the callback a code that signs in."""

    @staticmethod
    def format_request(request: HttpRequest) -> str:
        return f"{request.method} {request.path}"


def _has_session(request: HttpRequest) -> bool:
    return settings.SESSION_COOKIE_NAME in request.COOKIES


class LanguageMiddleware(LocaleMiddleware):
    """Language and time zone: what the person chose, else the cookie, else what the browser prefers."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        _activate_zone(request.COOKIES.get("timezone", ""))  # what the browser says of itself, by static/js/theme.js
        if not _has_session(request) or not request.user.is_authenticated:
            return
        user = request.user
        if user.language and user.language != request.LANGUAGE_CODE:
            translation.activate(user.language)
            request.LANGUAGE_CODE = translation.get_language()
        if user.timezone:
            _activate_zone(user.timezone)


class AuthenticationMiddleware(DjangoAuthenticationMiddleware):
    """Reads the person in the query that tells whether the provider still vouches for them."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _user(request))  # type: ignore[assignment]


def _user(request: HttpRequest) -> User | AnonymousUser:
    """What `auth.get_user` says, which is asked wherever it might say anything else."""
    row, session = _opened(request), request.session
    if (
        row is not None
        and row.user.is_active
        and session[auth.SESSION_KEY] == str(row.user_id)
        and session.get(auth.BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS
        and constant_time_compare(session.get(auth.HASH_SESSION_KEY, ""), row.user.get_session_auth_hash())
    ):
        return row.user
    return auth.get_user(request)


def _opened(request: HttpRequest) -> ProviderSession | None:
    """What is kept of the request's session, read once."""
    if not hasattr(request, "opened"):
        is_signed_in = auth.SESSION_KEY in request.session
        request.opened = services.opened(request.session.session_key or "") if is_signed_in else None  # type: ignore[attr-defined]
    return cast("ProviderSession | None", request.opened)  # type: ignore[attr-defined]


@functools.cache
def _zones() -> frozenset[str]:
    """Read from the disk once: it takes ten milliseconds."""
    return frozenset(zoneinfo.available_timezones())


def _activate_zone(name: str) -> None:
    if name in _zones():
        timezone.activate(zoneinfo.ZoneInfo(name))
    else:
        timezone.deactivate()


class ProviderSessionMiddleware:
    """Ends a browser session the provider no longer vouches for, whatever the method of the request."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if _has_session(request) and auth.SESSION_KEY in request.session:
            standing = services.confirm(_opened(request), used=_by_hand(request))
            if standing is services.Standing.UNCONFIRMED:
                return answers.unavailable(request, 10)
            if standing is services.Standing.ENDED:
                auth.logout(request)
        return self.get_response(request)


def _by_hand(request: HttpRequest) -> bool:
    """Whether a person did this. Parts of a page that fetch themselves again must not keep a session alive for ever."""
    return request.method not in ("GET", "HEAD") or request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"


class ActorMiddleware:
    """Sets `request.actor`, and asks everybody to sign in for every view that is not marked `public`."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.actor = SimpleLazyObject(lambda: _actor(request))  # type: ignore[attr-defined]
        if _has_session(request) and (pk := request.session.get(auth.SESSION_KEY)):
            structlog.contextvars.bind_contextvars(actor=f"user:{pk}")
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Callable[..., Any], *_: object) -> HttpResponse | None:
        if is_public(view) or _is_rest(view):
            return None  # REST views refuse by their own permission classes, IsAuthenticated unless they say otherwise
        return None if request.user.is_authenticated else answers.sign_in_first(request)


def _actor(request: HttpRequest) -> Actor:
    user = request.user
    return user.actor() if user.is_authenticated else Actor.anonymous()


def _is_rest(view: Callable[..., Any]) -> bool:
    cls = getattr(view, "cls", None)
    return isinstance(cls, type) and issubclass(cls, APIView)
