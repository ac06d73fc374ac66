"""Sharing: the dialog that makes links, the file of a thing, and the page behind a link."""

from datetime import timedelta
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.debug import sensitive_variables

from dashboard.pages.shared.frame import page, person, show
from dashboard.pages.sharing.drawing import ANNEX, draw, styles
from runs.actions import sharing
from runs.actions.sharing import Closed, Shared, open_link, revoke_share, thing_of
from runs.rights.access import NotFound, Permission, get_shared_link, visible_shared_links
from runs.rights.access.operations import PUBLIC, thing
from runs.serving.login_limits import claim, network

COMPARISON = "compare?"  # its runs are in the address of the page that asks
LIVES = {"1": "1 day", "7": "7 days", "30": "30 days", "365": "1 year"}
FRAGMENTS = {"dialog": "sharing/_share.html", "form": "sharing/_form.html"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,  # nothing runs, and nothing is fetched or sent
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
    "Cache-Control": "private, no-store",
}


@page(get=PUBLIC)
@sensitive_variables("secret")
def shared(request: HttpRequest, secret: str) -> HttpResponse:
    """Show a guest what the link is about. A page that refreshes itself is opened once."""
    request.path = request.path_info = "/shared/"  # for logs, which have no secret
    try:
        is_counted = request.method == "GET" and "again" not in request.GET
        return HttpResponse(draw(*open_link(secret, is_counted=is_counted), refreshes=True), headers=HEADERS)
    except Closed as error:
        return _closed(410, str(error))
    except NotFound as error:
        wait_s = claim(account=f"guest of {network(request.META.get('REMOTE_ADDR', ''))}", address=None)
        if not wait_s:
            return _closed(404, str(error))
        answer = _closed(429, f"Too many links that do not exist were tried from here. Wait {wait_s} s.")
        answer["Retry-After"] = str(wait_s)
        return answer


def _closed(status: int, sentence: str) -> HttpResponse:
    html = render_to_string("sharing/closed.html", {"css": styles(), "sentence": sentence, "title": "Shared"})
    return HttpResponse(html, status=status, headers=HEADERS)


@page(get=thing(Permission.RUNS_READ))
def export(request: HttpRequest) -> HttpResponse:
    """The same page as one file, or of a run the sheet of the EU AI Act."""
    chosen = _thing(request, Permission.RUNS_READ)
    if chosen.kind == "run" and request.GET.get("sheet") == ANNEX:
        chosen = chosen._replace(kind=ANNEX, title=f"{chosen.title}, Annex XI")
    named = f'attachment; filename="{slugify(chosen.title)[:80] or chosen.kind}.html"'
    return HttpResponse(draw(person(request), chosen), headers={**HEADERS, "Content-Disposition": named})


@page(get=thing(Permission.RUNS_SHARE), post=thing(Permission.RUNS_SHARE))
def share(request: HttpRequest) -> HttpResponse:
    chosen, days = _thing(request, Permission.RUNS_SHARE), request.POST.get("days")
    if days is None:
        return _dialog(request, chosen)
    if days not in LIVES:
        raise ValidationError({"days": f"{days[:20]!r} is no choice; accepted: {', '.join(LIVES)}."})
    ends_at = timezone.now() + timedelta(days=int(days))
    return _dialog(request, chosen, sharing.share(actor=person(request), name=chosen.name, expires_at=ends_at)[1])


@page(post=thing(Permission.RUNS_SHARE))
def revoke(request: HttpRequest, share_id: str) -> HttpResponse:
    link = get_shared_link(request, share_id)
    revoke_share(actor=person(request), link=link)
    return _dialog(request, thing_of(person(request), link.object, Permission.RUNS_SHARE))


def _thing(request: HttpRequest, wanted: Permission) -> Shared:
    name = request.POST.get("object") or request.GET.get("object", "")
    if name == COMPARISON:
        name += urlsplit(request.headers.get("Referer", "")).query
    return thing_of(person(request), name, wanted)


def _dialog(request: HttpRequest, chosen: Shared, url: str = "") -> HttpResponse:
    links = visible_shared_links(request.user).filter(
        object=chosen.name, revoked_at=None, expires_at__gt=timezone.now()
    )
    context = {"shown": chosen, "url": url, "lives": LIVES.items(), "links": links}
    return show(request, "sharing/share.html", context, fragments=FRAGMENTS)
