"""The points of a series: joined, cut, and finer where one looks closely."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dashboard.js.conftest import Ask

SPLICE = """({partOf, spliced}, [coarse, fine, window]) => {
    const whole = spliced(partOf(coarse), partOf(fine), window);
    return Object.fromEntries(Object.entries(whole).map(([name, column]) => [name, column && [...column]]));
}"""


def test_a_window_is_drawn_with_its_own_points(ask: Ask) -> None:
    def buckets(*steps: int) -> dict[str, Any]:
        columns = {name: list(steps) for name in ("time", "mean", "min", "max", "last")}
        return {"kind": "buckets", "step": list(steps), **columns}

    fine = {"step": [11, 12, 13], "time": [11, 12, 13], "value": [1, 2, 3]}
    spliced = ask(
        "charts/data/parts.js", SPLICE, [buckets(10, 15, 20, 25), fine, {"axis": "step", "from": 11, "to": 13}]
    )
    assert spliced["step"] == [10, 11, 12, 13, 15, 20, 25]
    assert spliced["min"] == [10, 1, 2, 3, 15, 20, 25]
    pushed = ask(
        "charts/data/parts.js", SPLICE, [buckets(10, 12, 14, 30), fine, {"axis": "step", "from": 11, "to": 20}]
    )
    assert pushed["step"] == [10, 11, 12, 13, 14, 30], "what was pushed after the window was read stays"
    empty = {"step": [], "time": [], "value": []}
    assert ask("charts/data/parts.js", SPLICE, [buckets(10, 12, 30), empty, {"axis": "step", "from": 11, "to": 20}])[
        "step"
    ] == [10, 30]


GROW = """({partOf, grown, joined}, [first, more]) => {
    let part = partOf(first);
    let plain = partOf(first);
    const before = [];
    const columns = ["step", "time", "value", "min", "max", "last", "num_nan"];
    const text = (part) => JSON.stringify(columns.map((name) => part[name] && Array.from(part[name], String)));
    for (const one of more) {
        before.push([part, text(part)]);
        part = grown(part, partOf(one));
        plain = joined(plain, partOf(one));
    }
    // Somebody else grows an older view: neither may see what the other has.
    const [old] = before[before.length >> 1] ?? [part];
    const other = grown(old, partOf({step: [-1], time: [-1], value: [-1]}));
    const isUntouched = before.every(([part, was]) => text(part) === was);
    return [text(part) === text(plain), isUntouched, other.step.at(-1), part.seams];
}"""


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 70), max_size=30), st.booleans())
def test_points_that_keep_coming_are_those_of_a_plain_concatenation(
    ask: Ask, sizes: list[int], is_buckets: bool
) -> None:
    num = 5
    first: dict[str, Any] = {"step": list(range(num)), "time": list(range(num)), "value": [1.5] * num}
    if is_buckets:
        columns = {name: [1.0] * num for name in ("mean", "min", "max", "last")}
        first |= {"kind": "buckets", **columns, "num_nan": [0, 1, 0, 0, 0]}
    more = []
    for size in sizes:
        steps = [num + at for at in range(size)]
        more.append({"step": steps, "time": steps, "value": ["NaN" if at % 7 == 3 else at / 3 for at in range(size)]})
        num += size
    is_same, is_untouched, last, seams = ask("charts/data/parts.js", GROW, [first, more])
    assert (is_same, is_untouched, last) == (True, True, -1)
    assert seams == ([5] if is_buckets and any(sizes) else [])


def test_a_live_line_is_not_copied_for_each_message(ask: Ask) -> None:
    buffers = """({partOf, grown}) => {
        let part = partOf({step: [0], time: [0], value: [0]});
        const buffers = new Set();
        for (let step = 1; step < 3000; step += 1) {
            part = grown(part, partOf({step: [step], time: [step], value: [step]}));
            buffers.add(part.value.buffer);
        }
        return [part.value.every((value, at) => value === at), buffers.size];
    }"""
    is_right, num_buffers = ask("charts/data/parts.js", buffers)
    assert is_right and num_buffers < 15


def test_a_window_of_a_line_whose_clock_went_back_keeps_every_bucket_outside(ask: Ask) -> None:
    times = [10, 20, 15, 30, 40]
    coarse = {"kind": "buckets", "step": [1, 2, 3, 4, 5], "time": times}
    coarse |= {name: [1, 2, 3, 4, 5] for name in ("mean", "min", "max", "last")}
    fine = {"step": [3, 2], "time": [15, 20], "value": [30, 20]}
    spliced = ask("charts/data/parts.js", SPLICE, [coarse, fine, {"axis": "time", "from": 12, "to": 25}])
    assert sorted(zip(spliced["time"], spliced["value"], strict=True)) == [
        (10, 1),
        (15, 30),
        (20, 20),
        (30, 4),
        (40, 5),
    ]


LINES = """({rising}, columns) => {
    const [step, time, value] = columns.map((one) => Float64Array.from(one));
    const found = rising({step, time, value, min: null, max: null, last: null, num_nan: null, seams: []});
    return [[...found.step], [...found.value]];
}"""


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_of_points_of_one_step_the_last_in_time_stays(ask: Ask, seed: int) -> None:
    random = np.random.default_rng(seed)
    num = int(random.integers(1, 60))
    steps, times = random.integers(0, 30, num), random.permutation(num)
    found = ask("charts/lines/attempts.js", LINES, [steps.tolist(), times.tolist(), list(range(num))])
    newest = {
        step: max(np.flatnonzero(steps == step), key=lambda at: times[at]) for step in sorted(set(steps.tolist()))
    }
    assert found == [list(newest), [int(at) for at in newest.values()]]
