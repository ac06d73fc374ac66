"""The act that is under way: who they are, what they do it with, and what it has changed so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from trainyard.contract.base import JsonObject

MAX_CHANGES = 40  # rows of the database whose values one act keeps

Values = JsonObject  # of a row, by field


@dataclass
class Act:
    """One act while it goes on. Code that knows better than the route may set ``action``, ``object`` and so on."""

    actor: str = ""
    actor_number: int | None = None
    token: str = ""
    address: str = ""
    action: str = ""
    object: str = ""
    project: str = ""
    result: str = ""
    before: dict[str, Values] = field(default_factory=dict)  # by row, the fields that changed
    after: dict[str, Values] = field(default_factory=dict)
    num_left_out: int = 0
    repeats: int = 1
    is_wanted: bool = True  # whether it is recorded; code that knows of a sign-in says so

    def changed(self, row: str, before: Values, after: Values) -> None:
        """Keep what an act did to a row; a row that changes again keeps its first values of before."""
        if row not in self.before and row not in self.after and len(self.before) + len(self.after) >= 2 * MAX_CHANGES:
            self.num_left_out += 1
            return
        if before:
            self.before[row] = {**before, **self.before.get(row, {})}
        if after:
            self.after[row] = {**self.after.get(row, {}), **after}


_current: ContextVar[Act | None] = ContextVar("trainyard_act", default=None)


def current_act() -> Act | None:
    return _current.get()


@contextmanager
def acting(act: Act) -> Iterator[Act]:
    """Let what happens inside count as part of the act."""
    token = _current.set(act)
    try:
        yield act
    finally:
        _current.reset(token)


@contextmanager
def unrecorded() -> Iterator[None]:
    """Let what happens inside change rows of which the act that goes on keeps no values, as when a person is erased."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)
