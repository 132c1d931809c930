"""A person's inbox, and the bell that says how much of it is new."""

from __future__ import annotations

from operator import itemgetter
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from apps.accounts import services as accounts
from apps.notices import services
from apps.notices.domain import KEPT_DAYS
from apps.notices.models import Notice

LISTING = accounts.Listing()
FILTERS = ("unread", "kind", "tenant")


@require_GET
def inbox(request: HttpRequest) -> HttpResponse:
    """Newest first, filters and place in the address; `?part=bell` is the bell alone, `?part=newer&first=…` the line
    that offers what came since."""
    actor, query = request.actor, request.GET
    found = services.inbox(actor, _wish(query))
    match query.get("part"):
        case "bell":
            return render(request, "notices/bell.html", {"unread": services.unread_count(actor)})
        case "newer":
            count = found.filter(pk__gt=_number(query.get("first", ""))).order_by()[: LISTING.size].count()
            return render(request, "notices/inbox.html#newer", {"count": count, "query": _kept(query)})
    page = LISTING.page(found, query)
    kept = _kept(query)
    context = {
        "lines": services.lines(page.rows),
        "unread": services.unread_count(actor),
        "newest": page.rows[0].pk if page.rows and not page.newer else 0,
        "page": page,
        "kinds": sorted(((kind.key, str(kind.name)) for kind in services.kinds().values()), key=itemgetter(1)),
        "filtered": bool(kept),
        "query": kept,
        "days": KEPT_DAYS,
    }
    return render(request, "notices/inbox.html", context)


@require_POST
def mark(request: HttpRequest, notice_id: int) -> HttpResponse:
    """Mark one as read, or as unread (`read=0`); with `go=1` on to what it tells of."""
    own = get_object_or_404(Notice.objects.visible_to(request.actor), pk=notice_id)
    notice = services.mark_read(request.actor, own.pk, read=request.POST.get("read") != "0")
    if request.POST.get("go") and url_has_allowed_host_and_scheme(notice.link, allowed_hosts=None):
        return redirect(notice.link)
    return _back(request)


@require_POST
def mark_all(request: HttpRequest) -> HttpResponse:
    """Mark everything up to the newest that the page showed as read."""
    services.mark_all_read(request.actor, _number(request.POST.get("up_to", "")))
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    kept = request.POST.get("query", "")[:200]
    answer = redirect("notices:inbox")
    answer["Location"] += f"?{_kept(QueryDict(kept))}" if kept else ""
    return answer


def _wish(query: QueryDict) -> services.Wish:
    return services.Wish(bool(query.get("unread")), query.get("kind", "")[:80], query.get("tenant", "")[:30])


def _kept(query: QueryDict) -> str:
    return urlencode({key: query[key][:80] for key in FILTERS if query.get(key)})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
