"""Every route there is: found by walking the URL resolver and the sockets, so that none can be forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from inspect import getclosurevars, isfunction
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver
from ninja.operation import PathView

from dashboard.rules.admin import admin_rule
from dashboard.rules.callers import TOKENS_ALONE, Caller, outcome
from dashboard.rules.kinds import Rule
from dashboard.rules.pages import PAGES, SOCKETS
from dashboard.rules.rest import REST
from dashboard.sockets.consumers import websocket_urlpatterns

API, ADMIN_PREFIX = "api/v1/", "admin/"
RULES: dict[str, Rule] = {**{key.replace(" /", f" /{API}", 1): rule for key, rule in REST.items()}, **PAGES, **SOCKETS}
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
    ours = {path for path, view in _paths(get_resolver().url_patterns, "/") if hasattr(view, "methods")}
    found = [
        Route(method, path)
        for path, view in _paths(get_resolver().url_patterns, "/")
        if hasattr(view, "methods") or path not in ours  # a page of ours stands before Django's
        for method in _methods(view, path)
    ]
    sockets = [Route("WS", _plain("/" + str(pattern.pattern))) for pattern in websocket_urlpatterns]
    return sorted({*found, *sockets}, key=lambda route: (route.path, route.method))


def rule_of(route: Route) -> Rule | None:
    """Return the rule of a route; None where nobody gave it one."""
    return admin_rule(route.method, route.path) if route.is_admin else RULES.get(str(route))


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


def _methods(view: Callable[..., Any], path: str) -> tuple[str, ...]:
    """Return what a page's decorator noted, or the methods of the REST operations behind the framework's wrapper. A
    page of Django's administration takes both of a browser's."""
    if methods := getattr(view, "methods", ()):
        return tuple(methods)
    if path.startswith(f"/{ADMIN_PREFIX}"):
        return ("GET", "POST")
    path_view = getclosurevars(view).nonlocals.get("self") if isfunction(view) else None
    operations = path_view.operations if isinstance(path_view, PathView) else ()
    return tuple({method for operation in operations for method in operation.methods}) or ("GET",)


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
