"""Notices on the page, and the rules of a person and of a project."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.account.security import device_of
from dashboard.pages.shared.frame import answer, page, person, problems_of, safe_next, show
from runs import actions
from runs.models import Notice, Project
from runs.models.notices import NUMBERS, OF_BELLS, OF_PERSONS, NoticeKind, Where
from runs.notices.browser_push import public_key
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import own, thing
from trainyard.contract.base import encode

MOST_SHOWN, MOST_TROUBLED = 200, 20
PLACES = [one for one in Where.choices if one[0] not in OF_PERSONS]  # that the form offers
FRAGMENTS = {"bell": "components/_bell.html", "notices": "people/_notices.html"}


@page(get=own(Permission.ACCOUNT_READ), post=own(Permission.ACCOUNT_MANAGE))
def notices(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        num = actions.read_notices(actor=person(request), notice_id=request.POST.get("notice", ""))
        return answer(request, f"Marked {num} as read.", home="notices")
    rows = actions.visible_notices(person(request))[:MOST_SHOWN]
    return show(request, "people/notices.html", {"notices": rows}, fragments=FRAGMENTS)


@page(get=own(Permission.ACCOUNT_READ), post=own(Permission.ACCOUNT_MANAGE))
@sensitive_post_parameters("destination")
def own_rules(request: HttpRequest) -> HttpResponse:
    return _rules(request, None)


@page(get=thing(Permission.OWNERS_MANAGE), post=thing(Permission.OWNERS_MANAGE))
@sensitive_post_parameters("destination")
def project_rules(request: HttpRequest, project_id: str) -> HttpResponse:
    return _rules(request, get_project(request, project_id))


@page(post=own(Permission.ACCOUNT_MANAGE))
def do_rule(request: HttpRequest, rule_id: str, verb: str) -> HttpResponse:
    done = actions.do_notice_rule(actor=person(request), rule_id=rule_id, verb=verb)
    back = safe_next(request, request.headers.get("Referer", ""), reverse("own-notices"))
    return answer(request, done, to=back if verb == "delete" else "", home="notices")  # the list is drawn anew


@page(post=own(Permission.ACCOUNT_MANAGE))
def quiet_hours(request: HttpRequest) -> HttpResponse:
    given = {name: request.POST.get(name, "") for name in ("begins", "ends", "zone")}
    actions.set_quiet_hours(actor=person(request), spares_errors="spares_errors" in request.POST, **given)
    return answer(request, "Saved your quiet hours.", home="own-notices")


def _rules(request: HttpRequest, project: Project | None) -> HttpResponse:
    """Show the rules; make one of what was typed."""
    typed, problems, key = request.POST, {}, ""
    kinds = {kind: typed.get(f"number-{kind}", "") for kind in typed.getlist("kind")}
    if request.method == "POST":
        given: dict[str, Any] = {name: typed.get(name, "") for name in ("where", "destination")} | {"project": project}
        if rule_id := typed.get("rule"):
            rule = actions.get_notice_rule(actor=person(request), rule_id=rule_id)
            given = {"rule": rule, "where": rule.where, "destination": None, "project": rule.project}
        given |= {"kinds": kinds, "only_mine": "only_mine" in typed, "every": typed.get("every", "")}
        try:
            key = actions.save_notice_rule(actor=person(request), **given).key
        except ValidationError as error:
            problems = problems_of(error)
    troubled = Prefetch("notices", Notice.objects.exclude(problem="")[:MOST_TROUBLED], to_attr="troubled")
    rules = list(actions.notice_rules(actor=person(request), project=project).prefetch_related(troubled))
    shown = [(rule, Where(rule.where).label, _choices(rule.kinds)) for rule in rules]
    context: dict[str, Any] = {"project": project, "rules": shown, "places": PLACES, "every": actions.EVERY}
    context |= {"problems": problems, "key": key, "typed": typed}
    context["choices"] = _choices(kinds if problems else OF_BELLS)
    if project is None:
        name = device_of(request.headers.get("User-Agent", ""))
        context["push"] = {"key": public_key(), "name": name, "kinds": encode(OF_BELLS)}
    return show(request, "people/notice_rules.html", context, status=422 if problems else 200)


def _choices(kinds: Mapping[Any, object]) -> list[tuple[NoticeKind, bool, object]]:
    """Return each kind, whether it is chosen, and its number, where it has one."""
    return [(one, one in kinds, (kinds.get(one) or NUMBERS[one]) if one in NUMBERS else "") for one in NoticeKind]
