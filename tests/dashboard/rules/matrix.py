"""Every route with what becomes of a request of each caller."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import getclosurevars, isfunction
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver
from ninja.operation import PathView

from dashboard.sockets.consumers import websocket_urlpatterns
from runs.rights.access.operations import PUBLIC, Rule, RuleKind
from tests.dashboard.rules.outcomes import TOKENS_ALONE, Caller, outcome

APIS, ADMIN_PREFIX = ("/api/v1/", "/mlflow/api/"), "admin/"
FRAMEWORKS = {"/api/v1/openapi.json", "/api/v1/docs"}  # whose views wear nothing, and show nothing of anybody
# Answer what no route names: 404.
NOTHING = {"/api/v1/", "/api/v1/<rest>", "/mlflow/api/2.0/", "/mlflow/api/2.0/<rest>"}


# Every route there is: found by walking the URL resolver and the sockets, so that none can be forgotten; and the
# rules of the administration's.


class Route(NamedTuple):
    """A method on a path with ``<names>`` for what varies."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_rest(self) -> bool:
        return self.path.startswith(APIS)

    @property
    def is_admin(self) -> bool:
        return self.path.startswith(f"/{ADMIN_PREFIX}")

    @property
    def is_socket(self) -> bool:
        return self.method == "WS"


def routes() -> list[Route]:
    return list(_rules())


def rule_of(route: Route) -> Rule | None:
    """Return what the route's operation declares; None where it declares nothing."""
    return _rules()[route]


@cache
def _rules() -> dict[Route, Rule | None]:
    found: dict[Route, Rule | None] = {}
    known = list(_paths(get_resolver().url_patterns, "/"))
    ours = {path for path, view in known if hasattr(view, "rules")}
    for path, view in known:
        if hasattr(view, "rules") or path not in ours:  # a page of ours stands before Django's
            found |= {Route(method, path): rule for method, rule in _declared(view, path)}
    for pattern in websocket_urlpatterns:
        found[Route("WS", _plain("/" + str(pattern.pattern)))] = pattern.callback.consumer_class.rule
    return dict(sorted(found.items(), key=lambda item: (item[0].path, item[0].method)))


def _paths(patterns: list[Any], prefix: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _paths(pattern.url_patterns, path)
        elif isinstance(pattern, URLPattern) and "(?P<" not in path and _plain(path) not in NOTHING:
            yield _plain(path), pattern.callback


def _plain(path: str) -> str:
    """Return the path without the converters of its names."""
    return re.sub(r"[<{](?:\w+:)?(\w+)(?::\w+)?[>}]", r"<\1>", path)


def _declared(view: Callable[..., Any], path: str) -> Iterator[tuple[str, Rule | None]]:
    """Yield each method with what a page or an operation of REST declares. A page of Django's administration takes both
    of a browser's methods."""
    path_view = getclosurevars(view).nonlocals.get("self") if isfunction(view) else None
    if hasattr(view, "rules"):
        yield from view.rules.items()
    elif path.startswith(f"/{ADMIN_PREFIX}"):
        yield from ((method, admin_rule(method, path)) for method in ("GET", "POST"))
    elif isinstance(path_view, PathView):
        for operation in path_view.operations:
            yield from ((method, getattr(operation.view_func, "rule", None)) for method in operation.methods)
    else:
        yield "GET", PUBLIC if path in FRAMEWORKS else None


def matrix() -> list[list[str]]:
    """Return a line for each route: the route, its permission, and what becomes of a request of each caller."""
    lines = [["route", "permission", *Caller]]
    for route, rule in _rules().items():
        if rule is None:
            lines.append([str(route), "NO RULE", *("" for _ in Caller)])
            continue
        found = [
            "" if caller in TOKENS_ALONE and not (route.is_rest or route.is_socket) else str(outcome(rule, caller))
            for caller in Caller
        ]
        lines.append([str(route), str(rule.permission or rule.kind), *found])
    return lines


# The rules of the administration: Django's own pages for staff, by table.

STAFF, TABLE, READ_ONLY = Rule(RuleKind.STAFF), Rule(RuleKind.TABLE), Rule(RuleKind.READ_ONLY)
# People change rows of these tables there. Every other table is read only, whoever asks.
CHANGED_BY_HAND = frozenset({
    "auth/group", "runs/cluster", "runs/clusterrole", "runs/customrole", "runs/grouprole", "runs/membership",
    "runs/project", "runs/user",
})  # fmt: skip
OF_THE_SITE: dict[str, Rule] = {
    "/admin/": STAFF, "/admin/autocomplete/": TABLE, "/admin/jsi18n/": STAFF, "/admin/logout/": PUBLIC,
    "/admin/password_change/done/": STAFF, "/admin/r/<content_type_id>/<object_id>/": STAFF, "/admin/search/": STAFF,
}  # fmt: skip
DELETED_ELSEWHERE = frozenset({"runs/user"})  # people are erased on their page under People
_OF_A_TABLE = re.compile(r"/admin/(?P<table>\w+/\w+)/(?P<page>[<>\w/]*)")
_READING = frozenset({"", "<object_id>/history/"})


def admin_rule(method: str, path: str) -> Rule | None:
    """Return the rule of a page of the administration; None for one that nobody gave a rule."""
    if path in OF_THE_SITE:
        is_refused = path == "/admin/autocomplete/" and method == "POST"  # before anybody is asked
        return STAFF if is_refused else OF_THE_SITE[path]
    found = _OF_A_TABLE.fullmatch(path)
    if found is None:
        return None
    page = found["page"]
    if page == "<object_id>/":
        return STAFF  # leads to the page of the row, which asks
    if page in _READING or (page == "<object_id>/change/" and method == "GET"):
        return TABLE
    if page == "<object_id>/delete/" and found["table"] in DELETED_ELSEWHERE:
        return READ_ONLY
    if page in ("add/", "<object_id>/change/", "<object_id>/delete/", "<id>/password/"):
        return TABLE if found["table"] in CHANGED_BY_HAND else READ_ONLY
    return None
