"""What the design has and this version does not do yet. Each is refused by name, so that nothing is ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from trainyard.contract.base import JsonObject
from trainyard.spec.document import value_at_path
from trainyard.spec.problems import Problem, show


class Unbuilt(NamedTuple):
    path: str
    is_asked: Callable[[Any], bool]
    accepted: str


UNBUILT: tuple[Unbuilt, ...] = ()


def unbuilt_problems(document: JsonObject) -> list[Problem]:
    """Return a problem for each thing in ``document`` that is designed and not built yet."""
    found = []
    for path, is_asked, accepted in UNBUILT:
        is_there, value = value_at_path(document, path)
        if is_there and is_asked(value):
            found.append(Problem(path, f"{show(value)} is not built yet; accepted: {accepted}"))
    return found
