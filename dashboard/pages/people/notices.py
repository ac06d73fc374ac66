"""Notices on the page, and the rules of a person and of a project."""

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.debug import sensitive_post_parameters

from dashboard.pages.shared.frame import answer, page, person, problems_of, show
from runs import actions
from runs.models import Project
from runs.models.notices import NUMBERS, OF_BELLS, NoticeKind, Where
from runs.notices.making import make_bells
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import own, thing

MOST_SHOWN = 200


@page(get=own(Permission.ACCOUNT_READ), post=own(Permission.ACCOUNT_MANAGE))
def notices(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        wanted = request.POST.get("notice", "")
        num = actions.read_notices(actor=person(request), notice_id=int(wanted) if wanted.isdecimal() else None)
        return answer(request, f"Marked {num} as read.", home="notices")
    rows = actions.visible_notices(person(request)).select_related("project")[:MOST_SHOWN]
    fragments = {"bell": "components/_bell.html", "notices": "people/_notices.html"}
    return show(request, "people/notices.html", {"notices": rows}, fragments=fragments)


@page(get=own(Permission.ACCOUNT_READ), post=own(Permission.ACCOUNT_MANAGE))
@sensitive_post_parameters("destination")
def own_rules(request: HttpRequest) -> HttpResponse:
    make_bells([person(request).pk])
    return _rules(request, None)


@page(get=thing(Permission.OWNERS_MANAGE), post=thing(Permission.OWNERS_MANAGE))
@sensitive_post_parameters("destination")
def project_rules(request: HttpRequest, project_id: str) -> HttpResponse:
    return _rules(request, get_project(request, project_id))


@page(post=own(Permission.ACCOUNT_MANAGE))
def do_rule(request: HttpRequest, rule_id: str, verb: str) -> HttpResponse:
    if verb not in ("delete", "test", "again"):
        raise Http404(f"rules have no verb {verb!r}")
    return answer(request, actions.do_notice_rule(actor=person(request), rule_id=rule_id, verb=verb), home="notices")


def _rules(request: HttpRequest, project: Project | None) -> HttpResponse:
    """Show the rules; make one of what was typed."""
    typed, chosen, problems, key = request.POST, request.POST.getlist("kind"), {}, ""
    if request.method == "POST":
        kinds = {kind: typed.get(f"number-{kind}", "") for kind in chosen}
        about = {"where": typed.get("where", ""), "destination": typed.get("destination", ""), "kinds": kinds}
        try:
            _, key = actions.save_notice_rule(
                actor=person(request), project=project, only_mine="only_mine" in typed, **about
            )
        except ValidationError as error:
            problems = problems_of(error)
    rules = list(actions.notice_rules(actor=person(request), project=project).prefetch_related("notices"))
    bell = next((rule for rule in rules if rule.where == Where.PAGE), None)
    context = {
        "project": project,
        "bell": _choices(bell.kinds if bell else OF_BELLS),
        "is_bell_mine": bell is None or bell.only_mine,
        "choices": _choices(dict.fromkeys(chosen, 0) if problems else OF_BELLS),
        "rules": [(rule, [NoticeKind(kind).label for kind in rule.kinds], Where(rule.where).label) for rule in rules],
        "places": [one for one in Where.choices if one[0] != Where.PAGE],
        "problems": problems, "typed": typed, "key": key,
    }  # fmt: skip
    return show(request, "people/notice_rules.html", context, status=422 if problems else 200)


def _choices(kinds: dict[str, int]) -> list[tuple[NoticeKind, bool, int]]:
    """Return each kind, whether it is chosen, and its number, 0 where it has none."""
    return [(one, one in kinds, kinds.get(one, 0) or NUMBERS.get(one, 0)) for one in NoticeKind]
