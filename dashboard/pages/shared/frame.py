"""Parts that every page shares: who may open it, how it is drawn, and how refusals look.

Every view in ``dashboard/pages`` wears ``@page``; ``urls.route`` refuses one that does not, so that a new page is
closed until somebody says who may open it.
"""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, NamedTuple
from urllib.parse import urlencode

import structlog
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from runs.actions import Refused, visible_notices
from runs.finding.language import FilterError
from runs.models import User
from runs.presenting import server_state
from runs.presenting.audit_rows import can_read_audit
from runs.presenting.listing import BadQuery
from runs.privacy import compliance
from runs.rights.access import Forbidden, NotFound, ProofNeeded, admit
from runs.rights.access.operations import Rule, RuleKind
from trainyard.spec import SpecError

log = structlog.get_logger(__name__)

View = Callable[Concatenate[HttpRequest, ...], HttpResponse]
SIGNED_OUT = "You are signed out. Sign in again."
THEMES = ("light", "dark")
# The bar of a phone has no room for People and Admin; the menu has.
ME_LINKS = (
    {"url_name": "account", "icon": "key", "label": "Your account"},
    {"url_name": "reports", "icon": "notes", "label": "Reports"},
    {"url_name": "people", "icon": "people", "label": "People"},
    {"url_name": "usage", "icon": "timeline", "label": "Usage"},
    {"url_name": "docs", "icon": "help", "label": "Docs"},
    {"url_name": "api:openapi-view", "icon": "spec", "label": "REST API"},
)
AUDIT_LINK = {"url_name": "audit", "icon": "admin", "label": "Audit"}
ADMIN_LINK = {"url_name": "admin:index", "icon": "admin", "label": "Admin"}
SERVER_LINK = {"url_name": "server", "icon": "clusters", "label": "Server"}


def page(**rules: Rule) -> Callable[[View], View]:
    """Declare what the view asks of whoever calls it by each method, such as ``post=thing(Permission.RUNS_STOP)``: no
    other method is taken. Answer its refusals."""
    by_method = {method.upper(): rule for method, rule in rules.items()}
    is_public = any(rule.kind == RuleKind.PUBLIC or rule.by_view for rule in by_method.values())

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not is_public and not request.user.is_authenticated:
                return to_sign_in(request)
            rule = by_method.get("GET" if request.method == "HEAD" else str(request.method))
            if rule is None:
                return HttpResponseNotAllowed(by_method)
            try:
                if not rule.by_view:
                    admit(request, rule)
                return view(request, *args, **kwargs)
            except NotFound as error:
                return refusal(request, 404, str(error) or "There is nothing here, or nothing that you may see.")
            except ProofNeeded as error:
                if is_script(request):
                    return refusal(request, 403, str(error))
                back = request.get_full_path() if request.method == "GET" else request.headers.get("Referer", "")
                after = safe_next(request, back, reverse("security"))
                return redirect(f"{reverse('second-factor-step')}?{urlencode({'next': after})}")
            except Forbidden as error:
                return refusal(request, 403, str(error) or "Your role in this project does not allow that.")
            except Refused as error:
                return refusal(request, 409, error.sentence)
            except ValidationError as error:  # no field of the view's form shows it: no form of ours sends that
                said = problems_of(error).items()
                return refusal(request, 422, " ".join(f"{name}: {words}" if name else words for name, words in said))
            except DataError as error:  # a NUL in an address or a form, which PostgreSQL takes nowhere in a text
                log.warning("page.not_storable", path=request.path, error=str(error))
                return refusal(request, 422, "The address or the form holds what the database does not take.")
            except SpecError as error:  # of a form, or a spec that fitted when it was written, and fits no more
                return refusal(request, 422, f"This cannot be done: {error}.")
            except (BadQuery, FilterError) as error:  # an address that asks for what there is not
                return refusal(request, 400, str(error))

        guarded.rules = by_method  # type: ignore[attr-defined]  # for the table of routes
        return guarded

    return decorate


class Verb(NamedTuple):
    """A button: one call of an action."""

    action: Callable[..., Any]
    sentence: str  # {name} is the thing's
    undo: str = ""  # the verb that takes it back
    leads_to: str = ""  # "result": what came of it; else a page, because the thing is gone


def verb_of(verbs: Mapping[str, Verb], name: str, noun: str) -> Verb:
    if name not in verbs:
        raise Http404(f"{noun} have no verb {name!r}")
    return verbs[name]


def person(request: HttpRequest) -> User:
    """Return who is signed in; only for views that are not public."""
    assert isinstance(request.user, User)
    return request.user


def show(
    request: HttpRequest,
    template: str,
    context: Mapping[str, object] | None = None,
    *,
    fragments: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    """Draw the page, or the one of its partials that ``?fragment=name`` asks for."""
    template = (fragments or {}).get(request.GET.get("fragment", ""), template)
    theme = request.COOKIES.get("theme", "")
    frame = {
        "nav": entries(request.path),
        "me_links": partial(me_links, request),  # drawn, and so asked for, with whole pages alone
        "server_sentences": server_state.known().sentences,
        "red_controls": compliance.alarms if getattr(request.user, "is_superuser", False) else (),  # asked for likewise
        "num_unread": partial(num_unread, request),
        "theme": theme if theme in THEMES else "",
        "rail": "folded" if request.COOKIES.get("rail") == "folded" else "",
        "is_script": is_script(request),
    }
    response = render(request, template, {**frame, **(context or {})}, status=status)
    response["Cache-Control"] = "no-store"
    return response


def num_unread(request: HttpRequest) -> int:
    """Up to 100: counting all would read the runs of each."""
    user = request.user
    return len(visible_notices(user).filter(state="unread").values("pk")[:100]) if isinstance(user, User) else 0


def me_links(request: HttpRequest) -> tuple[dict[str, str], ...]:
    """The links of the menu of whoever asks: pages that not everybody may open are among them where they may."""
    links = (*ME_LINKS, AUDIT_LINK) if can_read_audit(request.user) else ME_LINKS
    links = (*links, SERVER_LINK) if getattr(request.user, "is_superuser", False) else links
    return (*links, ADMIN_LINK) if getattr(request.user, "is_staff", False) else links


def answer(request: HttpRequest, sentence: str, *, undo: str = "", to: str = "", home: str = "runs") -> HttpResponse:
    """Answer a form that did something: JSON for our script, a redirect with a message without it.

    ``undo`` is a URL that takes it back by POST; ``to`` is where to go next, else the page the form was on.
    """
    if is_script(request):
        return JsonResponse({"sentence": sentence, "undo": undo, "to": to})
    messages.success(request, sentence, extra_tags=undo)
    return redirect(to or safe_next(request, request.headers.get("Referer", ""), reverse(home)))


def fresh_json(document: object, *, status: int = 200) -> JsonResponse:
    return JsonResponse(document, status=status, safe=False, headers={"Cache-Control": "no-store"})


def is_script(request: HttpRequest) -> bool:
    """Return whether a page's script sent the request: it wants words and no page."""
    return request.headers.get("X-Requested-With") == "fetch"


def refusal(request: HttpRequest, status: int, sentence: str) -> HttpResponse:
    if is_script(request):
        return JsonResponse({"sentence": sentence}, status=status)
    return show(request, "error.html", {"status": status, "sentence": sentence}, status=status)


def to_sign_in(request: HttpRequest, wanted: str = "") -> HttpResponse:
    """Lead to the sign-in and from there to ``wanted``, else back to this page."""
    if is_script(request):
        return JsonResponse({"sentence": SIGNED_OUT}, status=401)
    if not wanted and request.method in ("GET", "HEAD"):
        wanted = request.get_full_path()
    query = f"?{urlencode({'next': wanted})}" if wanted and wanted != "/" else ""
    return HttpResponseRedirect(reverse("sign-in") + query)


def problems_of(error: ValidationError) -> dict[str, str]:
    """The first sentence about each field of a form, for beside it."""
    if not hasattr(error, "error_dict"):
        return {"": " ".join(error.messages)}
    return {field: sentences[0] for field, sentences in error.message_dict.items()}


def safe_next(request: HttpRequest, wanted: str, otherwise: str) -> str:
    """Return ``wanted`` when it leads to this site, else ``otherwise``. A word without a slash would be looked for
    among the names of routes."""
    is_ours = "/" in wanted and url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    return wanted if is_ours else otherwise


# The rail's entries.


class NavEntry(NamedTuple):
    label: str
    icon: str
    url_name: str
    keys: str  # what to press to get there
    on_phone: bool = True
    url: str = ""
    is_current: bool = False


ENTRIES = (
    NavEntry("Home", "home", "home", "g h"),
    NavEntry("Runs", "runs", "runs", "g r"),
    NavEntry("Jobs", "jobs", "jobs", "g j"),
    NavEntry("Sweeps", "sweeps", "sweeps", "g s"),
    NavEntry("Reports", "notes", "reports", "g t", on_phone=False),
    NavEntry("Data", "data", "datasets", "g d"),
    NavEntry("Clusters", "clusters", "clusters", "g c"),
    NavEntry("People", "people", "people", "g p", on_phone=False),
)


def entries(path: str) -> list[NavEntry]:
    """The links of the frame, with the one that leads to ``path`` marked."""
    found = [one._replace(url=reverse(one.url_name)) for one in ENTRIES]
    return [one._replace(is_current=path == one.url or (one.url != "/" and path.startswith(one.url))) for one in found]
