"""Every route there is: found by walking the URL resolver and the sockets, so that none can be forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import getclosurevars, isfunction
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver
from ninja.operation import PathView

from dashboard.rules.admin import admin_rule
from dashboard.rules.callers import TOKENS_ALONE, Caller, outcome
from dashboard.sockets.consumers import websocket_urlpatterns
from runs.rights.access.operations import PUBLIC, Rule

API, ADMIN_PREFIX = "api/v1/", "admin/"
FRAMEWORKS = {"/api/v1/openapi.json", "/api/v1/docs"}  # whose views wear nothing, and show nothing of anybody
NOTHING = {"/api/v1/", "/api/v1/<rest>"}  # answer what no route names: 404


class Route(NamedTuple):
    """A method on a path with ``<names>`` for what varies."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_rest(self) -> bool:
        return self.path.startswith(f"/{API}")

    @property
    def is_admin(self) -> bool:
        return self.path.startswith(f"/{ADMIN_PREFIX}")

    @property
    def is_socket(self) -> bool:
        return self.method == "WS"

    @property
    def is_page(self) -> bool:
        return not (self.is_rest or self.is_admin or self.is_socket)


def routes() -> list[Route]:
    """Return every method of every route of the site, and every socket."""
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
    for route in routes():
        rule = rule_of(route)
        if rule is None:
            lines.append([str(route), "NO RULE", *("" for _ in Caller)])
            continue
        found = [
            "" if caller in TOKENS_ALONE and not (route.is_rest or route.is_socket) else str(outcome(rule, caller))
            for caller in Caller
        ]
        lines.append([str(route), str(rule.permission or rule.kind), *found])
    return lines
