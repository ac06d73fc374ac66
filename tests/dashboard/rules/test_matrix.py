"""Every route as every caller, compared with the table of permissions.

The routes are found by walking (pages, REST, sockets, and the tables of the administration); what should become of a
request is derived from what the route's operation declares and the table. A route that declares nothing is red, so is
one that declares something else than ``routes.txt`` says, and so is everything when a loader does not ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.test import Client, RequestFactory

from runs.admin.base import WrittenAdmin
from runs.api.auth import Resource
from runs.models import Dataset, Invitation, Job, Membership, Node, Run
from runs.rights import access
from runs.rights.access.operations import PUBLIC, RuleKind
from tests.cast import Cast, make_run
from tests.dashboard.rules.admin_rows import is_about_a_row, row_of
from tests.dashboard.rules.matrix import CHANGED_BY_HAND, FRAMEWORKS, Route, routes, rule_of
from tests.dashboard.rules.outcomes import OF_THE_ADMIN, ROLE_OF, STAFF, TOKENS_ALONE, Caller, CallOutcome, outcome
from tests.dashboard.rules.world import ABSENT, ADMIN_SIGN_OUT, World, make_world, outcome_of
from tests.printed_pages.access_matrix import documented
from tests.servers import Valkey

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture
def world(cast: Cast, valkey: Valkey) -> World:
    return make_world(cast)


def test_every_route_declares_what_the_approved_list_says() -> None:
    """Loaders enforce what is declared, so a wrong declaration looks right to the calls below. It differs from here."""
    assert {str(route) for route in routes() if rule_of(route) is None} == set(), "routes that declare nothing"
    approved = (Path(__file__).parent / "routes.txt").read_text().splitlines()
    assert [declared_by(route) for route in routes() if not route.is_admin] == approved


def test_the_table_for_a_spreadsheet_is_that_of_the_rules() -> None:
    assert (Path(settings.BASE_DIR) / "docs" / "access_matrix.csv").read_text() == documented()


def declared_by(route: Route) -> str:
    rule = rule_of(route)
    assert rule is not None
    return " ".join(filter(None, (str(route), "|", rule.kind, rule.permission, "hidden" if rule.hides else "")))


def test_an_operation_that_declares_nothing_does_not_start() -> None:
    router = Resource()
    with pytest.raises(TypeError, match="GET /open must wear @operation"):
        router.get("/open")(lambda request: None)


def test_a_loader_refuses_a_request_whose_operation_declares_no_permission(cast: Cast, rf: RequestFactory) -> None:
    run, request = make_run(cast), rf.get("/")
    request.user = cast.owner
    with pytest.raises(LookupError, match="GET / declares no permission"):
        access.get_run(request, run.pk)
    access.admit(request, PUBLIC)
    with pytest.raises(LookupError, match="GET / declares no permission"):
        access.get_run(request, run.pk)


def test_every_table_of_the_administration_is_walked_and_only_those_named_are_changed_there() -> None:
    found = {str(route) for route in routes()}
    changed = set()
    for model, pages in admin.site._registry.items():
        table = f"{model._meta.app_label}/{model._meta.model_name}"
        rows = [f"/admin/{table}/{page}" for page in ("", "add/", *(f"<object_id>/{one}/" for one in PAGES_OF_A_ROW))]
        assert {f"{method} {row}" for method in ("GET", "POST") for row in rows} <= found
        if not isinstance(pages, WrittenAdmin):
            changed.add(table)
    assert changed == CHANGED_BY_HAND


PAGES_OF_A_ROW = ("change", "delete", "history")


def test_every_route_as_the_callers_on_both_sides_of_its_rule(world: World) -> None:
    """The whole product is the extended test below: here each route meets whoever stands next to its boundary."""
    found = differences(world, routes(), boundary)
    assert not found, "\n".join(map(str, found))


@pytest.mark.extended
@pytest.mark.timeout(1800)  # ten thousand requests
def test_every_route_as_every_caller(world: World) -> None:
    """Prints the table of what was answered, and how many answers there were of each kind."""
    chosen = routes()
    answers = {
        (route, caller): (wanted_of(route, caller), world.call(route, caller))
        for route in chosen
        for caller in everybody(route)
    }
    for route in chosen:
        was = (f"{caller}={answers[route, caller][1]}" for caller in everybody(route))
        print(f"{route!s:<64}", ", ".join(was))
    counts = Counter(was for _, was in answers.values())
    kinds = Counter(kind_of(route) for route in chosen)
    print(f"{len(chosen)} routes:", ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    print(f"{len(answers)} requests:", ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    found = [(*map(str, asked), str(wanted), str(was)) for asked, (wanted, was) in answers.items() if wanted != was]
    print(f"{len(found)} differ from the rules")
    assert not found, "\n".join(map(str, found))


def test_nobody_gets_in_by_a_method_that_no_route_declares(world: World) -> None:
    client, there = Client(raise_request_exception=False), routes()
    public = {route.path for route in there if rule_of(route) == PUBLIC}
    paths = {route.path for route in there if not route.is_socket} - FRAMEWORKS - {ADMIN_SIGN_OUT} - public
    others = {Route(method, path) for method in METHODS for path in paths} - {*there}
    others = {one for one in others if one.method == "PUT" or not one.is_admin}  # all methods go through one door there
    answers = {route: client.generic(route.method, world.path(route)) for route in others}
    admitted = [
        (str(route), answer.status_code)
        for route, answer in answers.items()
        if answer.status_code not in (403, 404, 405) and outcome_of(answer) != CallOutcome.UNKNOWN
    ]
    assert admitted == []


def test_a_link_for_guests_opens_no_other_route(world: World) -> None:
    """Its secret as a token, as a session and in the address: whoever has it is nobody."""
    secret = world.ids["shared"]
    client = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {secret}"})
    found = []
    for route in routes():
        if route.is_socket or route.is_admin or rule_of(route) == PUBLIC:
            continue
        client.cookies[settings.SESSION_COOKIE_NAME] = secret
        answer = client.generic(route.method, f"{world.path(route)}?token={secret}&secret={secret}")
        if outcome_of(answer) != CallOutcome.UNKNOWN:
            found.append((str(route), answer.status_code))
    assert found == []


def test_lists_show_an_outsider_nothing(world: World) -> None:
    client = Client()
    client.force_login(world.users[Caller.OUTSIDER])
    for resource in ("runs", "jobs", "datasets", "sweeps", "clusters", "nodes", "projects"):
        assert client.get(f"/api/v1/{resource}").json() == {"items": [], "next": None}


@pytest.mark.extended
@pytest.mark.parametrize("caller", [Caller.OUTSIDER, Caller.VIEWER])
def test_what_is_refused_changes_nothing(world: World, caller: Caller) -> None:
    before = things()
    for route in routes():
        if not route.is_socket and wanted_of(route, caller) != CallOutcome.ALLOWED:
            world.send(route, caller)
    assert things() == before


def things() -> dict[str, Any]:
    models = (Run, Job, Dataset, Node, Membership, Invitation)
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models}


def kind_of(route: Route) -> str:
    if route.is_socket:
        return "of sockets"
    if route.is_admin:
        return "of the administration"
    return "of REST" if route.is_rest else "of pages"


# A loader that does not ask, and a route on which that is seen.
PATCHES = {
    "runs.api.training.runs.get_run": ("POST /api/v1/runs/<run_id>/stop", "runs.actions.runs.require"),
    "runs.api.people.projects.get_project": ("GET /api/v1/projects/<project_id>/invitations", ""),
    "runs.api.machines.nodes.get_node": ("POST /api/v1/nodes/<node_id>/drain", "runs.actions.nodes.require_manager"),
    "dashboard.pages.jobs.get_job": ("GET /jobs/<job_id>/", ""),
    "runs.api.people.git_keys.get_project": ("GET /api/v1/projects/<project_id>/git-keys", ""),
}


@pytest.mark.parametrize("loader", PATCHES)
def test_it_is_red_when_a_loader_does_not_ask(world: World, loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both the loader and the action that asks again: one alone still refuses."""
    key, behind = PATCHES[loader]
    route = named(key)
    assert differences(world, [route], everybody) == []
    real = getattr(access, loader.rpartition(".")[2])
    root = world.users[Caller.ADMINISTRATOR]
    monkeypatch.setattr(loader, lambda user, thing_id, *more, **options: real(root, thing_id, *more, **options))
    if behind:
        monkeypatch.setattr(behind, lambda *anything: None)
    assert differences(world, [route], everybody) != []


# What asks elsewhere than in a loader, and a route on which it is seen that it does not ask any more.
OTHER_PATCHES = {
    "dashboard.sockets.admission.why_not_enter": ("WS /ws/runs/<run_id>/session/", lambda *_: ""),
    "dashboard.sockets.admission.sight_by_token": ("WS /ws/runs/<run_id>/", lambda *_: access.Sight(None)),
    "runs.admin.base.WrittenAdmin.has_add_permission": ("POST /admin/runs/token/add/", lambda *_: True),
    "django.contrib.admin.AdminSite.has_permission": ("GET /admin/runs/run/", lambda *_: True),
    "django.contrib.admin.ModelAdmin.has_view_permission": ("GET /admin/runs/run/", lambda *_, **__: True),
}


@pytest.mark.parametrize("asking", OTHER_PATCHES)
def test_it_is_red_when_a_socket_or_the_administration_does_not_ask(
    world: World, asking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, lets_in = OTHER_PATCHES[asking]
    assert differences(world, [named(key)], everybody) == []
    monkeypatch.setattr(asking, lets_in)
    assert differences(world, [named(key)], everybody) != []


def named(key: str) -> Route:
    (route,) = [one for one in routes() if str(one) == key]
    return route


def differences(
    world: World, chosen: Iterable[Route], callers: Callable[[Route], Iterable[Caller]]
) -> list[tuple[str, str, str, str]]:
    """Return (route, caller, what should be, what was) for each that differs."""
    found = []
    for route in chosen:
        for caller in callers(route):
            wanted, was = wanted_of(route, caller), world.call(route, caller)
            if wanted != was:
                found.append((str(route), str(caller), str(wanted), str(was)))
    return found


def wanted_of(route: Route, caller: Caller) -> CallOutcome:
    """Return what should become of the request, in the world of the tests."""
    rule = rule_of(route)
    assert rule is not None, str(route)
    wanted = outcome(rule, caller)
    is_there = str(route) not in ABSENT
    if rule.kind in OF_THE_ADMIN and is_there:
        return _wanted_of_a_row(route, wanted)
    if is_there or wanted in (CallOutcome.UNKNOWN, CallOutcome.FORBIDDEN):
        return wanted
    return CallOutcome.HIDDEN


def _wanted_of_a_row(route: Route, wanted: CallOutcome) -> CallOutcome:
    """In an empty table there is no row to be seen; its history is looked for before anybody asks who may see it."""
    if not is_about_a_row(route) or wanted == CallOutcome.UNKNOWN or row_of(route) is not None:
        return wanted
    if route.path.endswith("/history/"):
        return CallOutcome.HIDDEN
    is_shown = wanted == CallOutcome.ALLOWED and not route.path.endswith("<object_id>/")
    return CallOutcome.HIDDEN if is_shown else wanted


def everybody(route: Route) -> Iterator[Caller]:
    for caller in Caller:
        if route.is_rest or route.is_socket or caller not in TOKENS_ALONE:
            yield caller


def boundary(route: Route) -> list[Caller]:
    """Return who nobody knows, who sees nothing, the weakest who may and the strongest who may not."""
    rule = rule_of(route)
    assert rule is not None, str(route)
    if rule.kind in OF_THE_ADMIN:
        return _boundary_of_the_admin(route)
    if rule.kind == RuleKind.PUBLIC:
        return [Caller.ANONYMOUS]
    roles = list(ROLE_OF)
    may = [one for one in roles if outcome(rule, one) == CallOutcome.ALLOWED]
    may_not = [one for one in roles if outcome(rule, one) != CallOutcome.ALLOWED]
    chosen = [Caller.ANONYMOUS, Caller.OUTSIDER, *may[:1], *may_not[-1:]]
    if route.is_rest or route.is_socket:
        chosen.append(Caller.REVOKED_TOKEN)
        if rule.permission is not None:
            chosen.append(Caller.WITHOUT_SCOPE)
    return chosen


def _boundary_of_the_admin(route: Route) -> list[Caller]:
    """Return who is refused: staff to whom no table was given, and for a change of what only the product writes the
    administrator too. The lists and the changes alone: a table has a dozen pages, and the others ask as these do."""
    rule = rule_of(route)
    assert rule is not None
    is_change = route.method == "POST" and route.path.endswith(("/add/", "/change/", "/delete/", "/password/"))
    is_list = route.method == "GET" and not is_about_a_row(route) and not route.path.endswith("/add/")
    if not (is_change or is_list):
        return []
    return sorted(caller for caller in STAFF if outcome(rule, caller) == CallOutcome.FORBIDDEN)
