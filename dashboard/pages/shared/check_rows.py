"""Checks of nodes as rows of a table: the worst first, with their numbers in words."""

from collections.abc import Sequence
from typing import NamedTuple

from runs.values.columns import Check, CheckState
from trainyard.formats.figures import number, size, speed

MAX_ROWS = 200
COLOURS = {CheckState.OK: "green", CheckState.WARN: "amber", CheckState.FAIL: "red"}
ORDER = [CheckState.FAIL, CheckState.WARN, CheckState.OK]
FORMATS = {"bytes": size, "B/s": speed}


class CheckRow(NamedTuple):
    key: str
    name: str
    node: str
    state: str
    colour: str
    sentence: str
    value: str
    limit: str


class CheckTable(NamedTuple):
    """``summary``: how many there are of each state; ``colour``: of the worst one."""

    rows: list[CheckRow]
    num_hidden: int
    summary: str
    colour: str
    num_bad: int

    @property
    def is_open(self) -> bool:
        """Return whether it is shown unasked: something fails."""
        return self.colour == "red"


def check_table(checks: Sequence[Check]) -> CheckTable:
    found = sorted(checks, key=lambda one: (ORDER.index(one.state), one.node, one.name))
    counts = [(sum(one.state == state for one in found), state) for state in ORDER]
    words = ", ".join(f"{number} {state}" for number, state in counts if number)
    colour = COLOURS[found[0].state] if found else "grey"
    num_bad = sum(one.state != CheckState.OK for one in found)
    return CheckTable([_row(one) for one in found[:MAX_ROWS]], max(0, len(found) - MAX_ROWS), words, colour, num_bad)


def _row(one: Check) -> CheckRow:
    key = "-".join((one.node, one.name, one.peer, one.sentence[:60]))
    name = one.name.replace("-", " ")
    value, limit = _figure(one.value, one.unit), _figure(one.limit, one.unit)
    return CheckRow(key, name, one.node, str(one.state), COLOURS[one.state], one.sentence, value, limit)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return f"{round(1000 * value, 2) + 0.0:,.2f} ms" if abs(value) < 1 else f"{value:,.1f} s"
    return FORMATS[unit](value) if unit in FORMATS else number(value, unit)
