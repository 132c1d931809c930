"""Pages of secrets: what there is, and the forms through which values go in. None shows a value."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts import services as accounts
from apps.accounts.types import Permission
from apps.adapters.errors import OutsideError
from apps.secrets import services
from apps.secrets.forms import EnterForm, ValuesForm, blank, of_secret
from apps.secrets.models import Secret
from apps.secrets.services.words import KINDS

LISTING = accounts.Listing()


@never_cache
@require_GET
def secrets(request: HttpRequest) -> HttpResponse:
    actor = request.actor
    actor.require(Permission.SECRET_VIEW, target="secrets")
    asked = {key: request.GET[key] for key in ("tenant", "q") if request.GET.get(key)}
    rows = services.secrets_of(actor, asked.get("tenant", ""))
    found = rows.filter(name__icontains=asked["q"][:40]) if "q" in asked else rows
    page = LISTING.page(found, request.GET)
    context = {
        "page": page.of(services.with_uses(page.rows)),
        "filtered": bool(asked.get("q") or request.GET.get("before") or request.GET.get("after")),
        "may_enter": actor.may(Permission.SECRET_MANAGE),
        "managed": {tenant.pk for tenant in _tenants(request)},
    }
    return render(request, "secrets/list.html", context)


def _number(raw: str | None) -> int:
    return int(raw) if raw and raw.isascii() and raw.isdecimal() and len(raw) < 19 else 0


def _tenants(request: HttpRequest) -> list[Any]:
    actor = request.actor
    return [one for one in accounts.tenants_of(actor) if actor.may(Permission.SECRET_MANAGE, one.pk)]


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def enter(request: HttpRequest) -> HttpResponse:
    """A new secret. Its values are handed on to the secrets server at once, or not kept at all."""
    actor = request.actor
    if request.method != "POST":
        actor.require(Permission.SECRET_MANAGE, target="secrets")
        begun = blank(request.GET["kind"]) if request.GET.get("kind") in list(services.Kind) else blank()
        begun |= {"tenant": request.GET.get("tenant", ""), "name": request.GET.get("name", "")[:40]}
        return _form(request, EnterForm(_tenants(request), initial=begun))
    tenant = accounts.tenant_of(actor, request.POST.get("tenant", ""))
    own = _tenants(request)
    form = EnterForm(own if tenant is None or tenant in own else [tenant], request.POST)
    if not form.is_valid():
        return _form(request, form, 422)
    assert tenant is not None
    try:
        made = services.enter(actor, tenant_id=tenant.pk, name=form.cleaned_data["name"], entry=form.entry())
    except services.NameTaken:
        form.add_error("name", _("The tenant has a secret of this name, or somebody enters one just now."))
        return _form(request, form, 409)
    except services.Bad as bad:
        form.fault(bad)
        return _form(request, form, 422)
    except (OutsideError, services.Stale) as error:
        return _not_kept(request, form, error)
    messages.success(request, _("“{name}” is stored. Nobody can read its values here any more.").format(name=made.name))
    return redirect(f"{reverse('secrets:list')}?tenant={tenant.slug}")


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "POST"])
def replace(request: HttpRequest, secret_id: int) -> HttpResponse:
    """New values under the same name; work that has the old ones keeps them."""
    actor, secret = request.actor, _secret(request, secret_id)
    if request.method != "POST":
        actor.require(Permission.SECRET_MANAGE, secret.tenant_id, target=f"secret:{secret.pk}")
        return _form(request, ValuesForm(initial=of_secret(secret)), secret=secret)
    form = ValuesForm(request.POST)
    if not form.is_valid():
        return _form(request, form, 422, secret=secret)
    seen = _number(request.POST.get("version"))
    secret.version = seen or secret.version
    try:
        services.replace(actor, secret=secret, entry=form.entry())
    except services.Bad as bad:
        form.fault(bad)
        return _form(request, form, 422, secret=secret)
    except services.Stale:
        messages.error(request, _("Somebody replaced or removed this secret meanwhile. Nothing you typed was kept."))
        return redirect("secrets:list")
    except OutsideError as error:
        return _not_kept(request, form, error, secret=secret)
    said = _("“{name}” has new values. Jobs that go in from now on get them.")
    messages.success(request, said.format(name=secret.name))
    return redirect(f"{reverse('secrets:list')}?tenant={secret.tenant.slug}")


@never_cache
@require_http_methods(["GET", "POST"])
def remove(request: HttpRequest, secret_id: int) -> HttpResponse:
    """GET says what names it and asks for its name, POST removes it."""
    actor, secret = request.actor, _secret(request, secret_id)
    (used,) = services.with_uses([secret])
    wrong = False
    if request.method == "POST":
        wrong = request.POST.get("name", "").strip() != secret.name
        if not wrong or not actor.may(Permission.SECRET_MANAGE, secret.tenant_id):
            services.remove(actor, secret=secret)
            messages.success(request, _("“{name}” is removed.").format(name=secret.name))
            return redirect(f"{reverse('secrets:list')}?tenant={secret.tenant.slug}")
    else:
        actor.require(Permission.SECRET_MANAGE, secret.tenant_id, target=f"secret:{secret.pk}")
    template = "secrets/remove.html#question" if request.htmx else "secrets/remove.html"
    context = {"secret": secret, "uses": used.uses, "wrong": wrong}
    return render(request, template, context, status=422 if wrong else 200)


def _secret(request: HttpRequest, secret_id: int) -> Secret:
    rows = Secret.objects.visible_to(request.actor).select_related("tenant", "changed_by")
    return get_object_or_404(rows, pk=secret_id)


@sensitive_variables("form")
def _form(request: HttpRequest, form: ValuesForm, status: int = 200, **context: Any) -> HttpResponse:
    if form.is_bound:
        form.again()
    context |= {"form": form, "kinds": [(kind.value, words[0]) for kind, words in KINDS.items()]}
    context["version"] = context["secret"].version if "secret" in context else 0
    return render(request, "secrets/form.html", context, status=status)


@sensitive_variables("form")
def _not_kept(request: HttpRequest, form: ValuesForm, error: Exception, **context: Any) -> HttpResponse:
    """The store is sealed or away: nothing was kept, and it will take the same again."""
    raw = error.text if isinstance(error, OutsideError) else ""
    response = _form(request, form, 503, raw=raw, not_kept=True, **context)
    response["Retry-After"] = "10"
    return response
