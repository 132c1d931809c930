"""A person's own settings, tokens and sessions; and the table of who may do what."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from apps.accounts import services
from apps.accounts.domain import GRANTS
from apps.accounts.forms import PreferencesForm, TokenForm
from apps.accounts.models import ApiToken, ProviderSession
from apps.accounts.scoping import public
from apps.accounts.types import PERMISSION_NAMES, ROLE_NAMES, Actor, Role
from apps.accounts.views import answers

TOKENS = services.Listing("tokens", size=20)
SESSIONS = services.Listing("sessions", size=20)


@never_cache
@require_GET
def settings_page(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(
    request: HttpRequest,
    *,
    preferences_form: PreferencesForm | None = None,
    token_form: TokenForm | None = None,
    clear_token: str = "",
) -> HttpResponse:
    """The settings page, with a form as it was sent when that could not be taken (then 422)."""
    actor: Actor = request.actor  # type: ignore[attr-defined]
    named = services.searched(request.GET, "token")
    context = {
        "preferences_form": preferences_form or PreferencesForm.of(request.user),  # type: ignore[arg-type]
        "token_form": token_form or TokenForm(),
        "clear_token": clear_token,
        "named": named,
        "tokens": TOKENS.page(services.tokens_of(actor, named), request.GET),
        "sessions": SESSIONS.page(services.sessions_of(actor), request.GET),
        "this_session": request.session.session_key,
        "roles": _roles(actor),
    }
    return render(request, "accounts/settings.html", context, status=422 if preferences_form or token_form else 200)


def _roles(actor: Actor) -> list[SafeString]:
    """What a person is, in each tenant and on the platform."""
    held = [
        format_html(_("<b>{role}</b> in {tenant}"), role=ROLE_NAMES[actor.tenants[tenant.pk]], tenant=tenant.name)
        for tenant in services.tenants_of(actor)
    ]
    return held + [format_html("<b>{}</b>", ROLE_NAMES[role]) for role in sorted(actor.platform)]


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return _page(request, preferences_form=form)
    services.set_preferences(request.actor, **form.cleaned_data)  # type: ignore[attr-defined]
    messages.success(request, _("Your settings are saved."))
    return redirect("accounts:settings")


@public
@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Switch the language: in the cookie for everybody, in their row for who has signed in."""
    wanted = request.POST.get("language", "")
    if wanted not in dict(settings.LANGUAGES):
        return HttpResponseBadRequest(_("There is no such language here."))
    return _chosen(request, settings.LANGUAGE_COOKIE_NAME, language=wanted)


@public
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Switch between light, dark, and what the system prefers ("auto")."""
    wanted = request.POST.get("theme", "")
    if wanted not in ("light", "dark", "auto"):
        return HttpResponseBadRequest(_("There is no such appearance."))
    return _chosen(request, "theme", theme=wanted)


def _chosen(request: HttpRequest, cookie: str, **choice: str) -> HttpResponse:
    """Keep one choice and go back to the page it was made on."""
    if request.user.is_authenticated:
        user = request.user
        kept = {"language": user.language, "theme": user.theme, "timezone": user.timezone, **choice}
        services.set_preferences(request.actor, **kept)  # type: ignore[attr-defined]
    came_from = (request.POST.get("next"), request.headers.get("Referer"))
    response = redirect(next(filter(None, (answers.safe_next(request, url) for url in came_from)), "/"))
    (value,) = choice.values()
    response.set_cookie(cookie, value, max_age=365 * 86400, samesite="Lax", secure=settings.SECURE, httponly=True)
    return response


@never_cache
@require_POST
def token_create(request: HttpRequest) -> HttpResponse:
    """Make a token and show it, once: the answer is a page, not a redirect, for it is kept nowhere in clear."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, token_form=form)
    clear = services.create_token(request.actor, **form.cleaned_data)  # type: ignore[attr-defined]
    return _page(request, clear_token=clear)


@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    try:
        services.revoke_token(request.actor, token_id)  # type: ignore[attr-defined]
    except ApiToken.DoesNotExist as error:
        raise Http404 from error
    messages.success(request, _("The token is revoked. Whatever uses it is refused from now on."))
    return redirect("accounts:settings")


@require_POST
def session_end(request: HttpRequest, session_id: int) -> HttpResponse:
    try:
        services.end_own_session(request.actor, session_id)  # type: ignore[attr-defined]
    except ProviderSession.DoesNotExist as error:
        raise Http404 from error
    messages.success(request, _("The session is ended."))
    return redirect("accounts:settings")


@require_GET
def permissions(request: HttpRequest) -> HttpResponse:
    """The permission table as it is used, read from the same data. Also for people without any role yet."""
    actor: Actor = request.actor  # type: ignore[attr-defined]
    mine = actor.platform | set(actor.tenants.values())
    rows = [(PERMISSION_NAMES[what], what, [role in GRANTS[what] for role in Role]) for what in GRANTS]
    columns = [(ROLE_NAMES[role], role in mine) for role in Role]
    context = {
        "columns": columns,
        "rows": [(name, key, list(zip(cells, columns, strict=True))) for name, key, cells in rows],
        "roles": _roles(actor),
    }
    return render(request, "accounts/permissions.html", context)
