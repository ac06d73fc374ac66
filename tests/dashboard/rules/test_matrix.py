"""Every route as every caller, compared with the table of permissions.

The routes are found by walking; what should become of a request is derived from the route's rule and the table. A route
without a rule is red, and so is everything when a loader does not ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

from dashboard.management.walk import RULES, Route, routes, rule_of
from dashboard.rules.callers import ROLE_OF, TOKENS_ALONE, Caller, Outcome, outcome
from dashboard.rules.kinds import Kind
from runs import access
from tests.cast import Cast
from tests.dashboard.rules.world import World, make_world
from tests.servers import Valkey

# What is wrong with the request is listed in the form beside the project that it is refused for: of these only what
# strangers are answered is compared.
STRANGERS_ALONE = {"POST /launch/"}
NO_SCOPE_NEEDED = {"POST /api/v1/plans"}  # any token of somebody who sees the project


@pytest.fixture
def world(cast: Cast, valkey: Valkey) -> World:
    return make_world(cast)


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    found = {str(route) for route in routes() if not route.is_admin}
    assert found - RULES.keys() == set(), "routes that no rule names"
    assert RULES.keys() - found == set(), "rules of routes that are gone"


def test_every_route_as_the_callers_on_both_sides_of_its_rule(world: World) -> None:
    """The whole product is the extended test below: here each route meets whoever stands next to its boundary."""
    found = differences(world, routes(), boundary)
    assert not found, "\n".join(map(str, found))


@pytest.mark.extended
def test_every_route_as_every_caller(world: World) -> None:
    """Prints the table of what was answered, and how many answers there were of each kind."""
    answers = {
        (route, caller): (wanted_of(route, caller), world.call(route, caller))
        for route in routes()
        if is_called(route)
        for caller in everybody(route)
    }
    for route in dict.fromkeys(route for route, _ in answers):
        was = (f"{caller}={answers[route, caller][1]}" for caller in everybody(route))
        print(f"{route!s:<64}", ", ".join(was))
    counts = Counter(was for _, was in answers.values())
    print(f"{len(answers)} requests:", ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()))
    found = [
        (str(route), str(caller), str(wanted), str(was))
        for (route, caller), (wanted, was) in answers.items()
        if wanted != was and (caller == Caller.ANONYMOUS or str(route) not in STRANGERS_ALONE)
    ]
    assert not found, "\n".join(map(str, found))


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
    (route,) = [one for one in routes() if str(one) == key]
    assert differences(world, [route], everybody) == []
    real = getattr(access, loader.rpartition(".")[2])
    root = world.users[Caller.ADMINISTRATOR]
    monkeypatch.setattr(loader, lambda user, thing_id, *more, **options: real(root, thing_id, *more, **options))
    if behind:
        monkeypatch.setattr(behind, lambda *anything: None)
    assert differences(world, [route], everybody) != []


def differences(
    world: World, chosen: Iterable[Route], callers: Callable[[Route], Iterable[Caller]]
) -> list[tuple[str, str, str, str]]:
    """Return (route, caller, what should be, what was) for each that differs."""
    found = []
    for route in filter(is_called, chosen):
        for caller in callers(route):
            wanted, was = wanted_of(route, caller), world.call(route, caller)
            if wanted != was:
                found.append((str(route), str(caller), str(wanted), str(was)))
    return found


def is_called(route: Route) -> bool:
    return rule_of(route) is not None and not (route.is_socket or route.is_admin)


def wanted_of(route: Route, caller: Caller) -> Outcome:
    """Return what should become of the request, in the world of the tests."""
    rule = rule_of(route)
    assert rule is not None
    wanted = outcome(rule, caller)
    if rule.is_there or wanted in (Outcome.UNKNOWN, Outcome.FORBIDDEN):
        return wanted
    return Outcome.HIDDEN


def everybody(route: Route) -> Iterator[Caller]:
    for caller in Caller:
        if (route.is_rest or caller not in TOKENS_ALONE) and not (
            caller == Caller.WITHOUT_SCOPE and str(route) in NO_SCOPE_NEEDED
        ):
            yield caller


def boundary(route: Route) -> list[Caller]:
    """Return who nobody knows, who sees nothing, the weakest who may and the strongest who may not."""
    rule = rule_of(route)
    assert rule is not None
    if rule.kind == Kind.PUBLIC or str(route) in STRANGERS_ALONE:
        return [Caller.ANONYMOUS]
    roles = list(ROLE_OF)
    may = [one for one in roles if outcome(rule, one) == Outcome.ALLOWED]
    may_not = [one for one in roles if outcome(rule, one) != Outcome.ALLOWED]
    chosen = [Caller.ANONYMOUS, Caller.OUTSIDER, *may[:1], *may_not[-1:]]
    if route.is_rest:
        chosen.append(Caller.REVOKED_TOKEN)
        if rule.permission is not None and str(route) not in NO_SCOPE_NEEDED:
            chosen.append(Caller.WITHOUT_SCOPE)
    return chosen


def test_sockets_have_rules() -> None:
    assert all(rule_of(route) is not None for route in routes() if route.is_socket)
