"""The points of a series: joined, cut, and finer where one looks closely."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

pytestmark = pytest.mark.browser


SPLICE = """({partOf, spliced}, [coarse, fine, window]) => {
    const whole = spliced(partOf(coarse), partOf(fine), window);
    return Object.fromEntries(Object.entries(whole).map(([name, column]) => [name, column && [...column]]));
}"""


def test_a_window_is_drawn_with_its_own_points(ask: Ask) -> None:
    def buckets(*steps: int) -> dict[str, Any]:
        columns = {name: list(steps) for name in ("time", "mean", "min", "max", "last")}
        return {"kind": "buckets", "step": list(steps), **columns}

    fine = {"step": [11, 12, 13], "time": [11, 12, 13], "value": [1, 2, 3]}
    spliced = ask("charts/parts.js", SPLICE, [buckets(10, 15, 20, 25), fine, {"axis": "step", "from": 11, "to": 13}])
    assert spliced["step"] == [10, 11, 12, 13, 15, 20, 25]
    assert spliced["min"] == [10, 1, 2, 3, 15, 20, 25]
    pushed = ask("charts/parts.js", SPLICE, [buckets(10, 12, 14, 30), fine, {"axis": "step", "from": 11, "to": 20}])
    assert pushed["step"] == [10, 11, 12, 13, 14, 30], "what was pushed after the window was read stays"
    empty = {"step": [], "time": [], "value": []}
    assert ask("charts/parts.js", SPLICE, [buckets(10, 12, 30), empty, {"axis": "step", "from": 11, "to": 20}])[
        "step"
    ] == [
        10,
        30,
    ]
