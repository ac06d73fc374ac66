"""Which views a session opens: pages and the admin, and of the REST API what a person may ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import getclosurevars, isfunction
from typing import Any

from ninja.operation import PathView

from runs.api.auth import SessionAuth


@lru_cache(maxsize=4096)
def takes_session(view: Callable[..., Any], method: str) -> bool:
    """Whether the view looks at a session at all. What nobody signs in for, and what nodes call, answers without one,
    and so without a database."""
    path_view = getclosurevars(view).nonlocals.get("self") if isfunction(view) else None
    if not isinstance(path_view, PathView):
        return True
    operations = [one for one in path_view.operations if method in one.methods]
    return any(isinstance(auth, SessionAuth) for one in operations for auth in one.auth_callbacks)
