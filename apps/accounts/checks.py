"""Settings that would open the door: named at start, and the start refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps.config import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from apps.adapters.identity.calls import is_loopback

_MUST_BE: dict[str, tuple[object, object]] = {  # setting: (what it must be, the library's default)
    "OIDC_USE_NONCE": (True, True),
    "OIDC_USE_PKCE": (True, False),
    "OIDC_PKCE_CODE_CHALLENGE_METHOD": ("S256", "S256"),
    "OIDC_VERIFY_JWT": (True, True),
    "OIDC_VERIFY_KID": (True, True),
    "OIDC_VERIFY_SSL": (True, True),
    "OIDC_ALLOW_UNSECURED_JWT": (False, False),
    "ALLOW_LOGOUT_GET_METHOD": (False, False),
}


@register("security")
def identity_settings(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> Sequence[CheckMessage]:
    """Every setting of sign-in that is not safe."""
    errors = [
        Error(f"{name} must be {wanted!r}.", hint="Take it out of the settings.", id="accounts.E001")
        for name, (wanted, default) in _MUST_BE.items()
        if getattr(settings, name, default) != wanted
    ]
    algorithm = settings.OIDC_RP_SIGN_ALGO
    if algorithm not in ("RS256", "PS256", "ES256"):
        errors.append(Error(f"OIDC_RP_SIGN_ALGO {algorithm} is not a public-key algorithm.", id="accounts.E002"))
    issuer = urlsplit(settings.OIDC_ISSUER)
    if issuer.scheme != "https" and not is_loopback(issuer.hostname or ""):
        errors.append(Error("OIDC_ISSUER must be https beyond this machine.", id="accounts.E003"))
    if settings.PORTAL_OIDC_GROUPS_ABSENT not in ("empty", "keep"):
        errors.append(Error('OIDC_GROUPS_ABSENT is "empty" or "keep".', id="accounts.E004"))
    if settings.PORTAL_OIDC_GROUPS_FROM not in ("id_token", "userinfo"):
        errors.append(Error('OIDC_GROUPS_FROM is "id_token" or "userinfo".', id="accounts.E005"))
    return errors + _demo_errors()


def _demo_errors() -> list[Error]:
    """The demo shows its passwords, and DEBUG its settings: neither may be reached from another machine."""
    if not (settings.DEMO or settings.DEBUG):
        return []
    hosts = [urlsplit(settings.BASE_URL).hostname or "", *(_host(one) for one in settings.ALLOWED_HOSTS)]
    beyond = sorted({host or "(empty)" for host in hosts if not is_loopback(host) and host != "testserver"})
    if not beyond:
        return []
    which = "MAAS_DEMO" if settings.DEMO else "MAAS_DEBUG"
    text = f"{which} is for this machine alone, but the portal would answer for {', '.join(beyond)}."
    return [Error(text, hint="Unset it, or let MAAS_BASE_URL and MAAS_ALLOWED_HOSTS be 127.0.0.1.", id="accounts.E006")]


def _host(allowed: str) -> str:
    """An ALLOWED_HOSTS entry without its port: `[::1]:80` is `::1`."""
    return allowed[1:].partition("]")[0] if allowed.startswith("[") else allowed.partition(":")[0]


def refuse_to_start() -> None:
    """Servers run no system checks of their own. Raises ImproperlyConfigured."""
    errors = identity_settings()
    if errors:
        raise ImproperlyConfigured(" ".join(str(error.msg) for error in errors))
