"""Expressions over series: what they mean, how lines of different steps go together, and what is wrong where."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

MODULE = "charts/lines/expressions.js"
# series: {name: [{labels, attempts: [[steps, values], …]}]} -> [[labels, [[attempt, steps, values], …]], …]
COMPUTE = """({parsed, linesIn}, [text, series]) => {
  const column = (values) => Float64Array.from(values, Number);
  const part = ([step, value]) => ({step: column(step), time: column(step), value: column(value), seams: []});
  const linesOf = (name) => (series[name] ?? []).map(({labels = {}, attempts}) =>
    ({labels, parts: new Map(attempts.map((one, at) => [at, part(one)]))}));
  const texts = (values) => [...values].map((value) => (Number.isFinite(value) ? value : String(value)));
  return linesIn(parsed(text), linesOf).map(({labels, parts}) =>
    [labels, [...parts].map(([attempt, {step, value}]) => [attempt, [...step], texts(value)])]);
}"""


@pytest.fixture
def compute(ask: Ask) -> Any:
    return lambda text, **series: ask(MODULE, COMPUTE, [text, series])


def line(steps: list[float], values: list[Any], **labels: str) -> dict[str, Any]:
    return {"labels": labels, "attempts": [[steps, values]]}


LOSS = line([1, 2, 3, 4], [4, 3, 2, 1])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("loss", [4, 3, 2, 1]),
        ("-loss + 1", [-3, -2, -1, 0]),
        ("2 * loss - loss / 2", [6, 4.5, 3, 1.5]),
        ("10 - loss - 1", [5, 6, 7, 8]),
        ("(1 + loss) * 2", [10, 8, 6, 4]),
        ("ema(loss, 0.5)", [4, 3.5, 2.75, 1.875]),
        ("mean(loss, 2)", [4, 3.5, 2.5, 1.5]),
        ("min(loss, 2)", [2, 2, 2, 1]),
        ("max(2.5, loss)", [4, 3, 2.5, 2.5]),
        ("abs(loss - 3)", [1, 0, 1, 2]),
        ("log(loss)", [math.log(4), math.log(3), math.log(2), 0]),
        ("1 / (loss - 1)", [1 / 3, 0.5, 1, "Infinity"]),
        ('"loss"', [4, 3, 2, 1]),
    ],
)
def test_an_expression_is_computed_point_by_point(compute: Any, text: str, values: list[Any]) -> None:
    ((labels, ((_, steps, found),)),) = compute(text, loss=[LOSS])
    assert (labels, steps, found) == ({}, [1, 2, 3, 4], pytest.approx(values) if "Infinity" not in values else values)


def test_a_difference_begins_at_the_second_point(compute: Any) -> None:
    assert compute("diff(loss)", loss=[LOSS]) == [[{}, [[0, [2, 3, 4], [-1, -1, -1]]]]]


def test_a_result_stands_at_the_steps_of_the_line_with_the_fewest_points(compute: Any) -> None:
    """The other line is read at its newest value by then; before its first there is nothing."""
    sparse = line([0, 2, 5], [9, 6, 5])
    assert compute("sparse / loss", loss=[LOSS], sparse=[sparse]) == [[{}, [[0, [2, 5], [2, 5]]]]]


def test_lines_of_the_same_labels_go_together_and_a_single_one_with_all(compute: Any) -> None:
    time = [line([1, 2], [1, 2], rank="0"), line([1, 2], [3, 4], rank="1")]
    wait = [line([1, 2], [1, 1], rank="1"), line([1, 2], [0, 0], rank="2")]
    assert compute("time - wait", time=time, wait=wait) == [[{"rank": "1"}, [[0, [1, 2], [2, 3]]]]]
    assert compute("time * loss", time=time, loss=[LOSS]) == [
        [{"rank": "0"}, [[0, [1, 2], [4, 6]]]],
        [{"rank": "1"}, [[0, [1, 2], [12, 12]]]],
    ]
    for text, values in (("spread", [2, 2]), ("mean", [2, 3]), ("min", [1, 2]), ("max", [3, 4])):
        assert compute(f"{text}(time)", time=time) == [[{}, [[0, [1, 2], values]]]]


def test_of_a_step_that_was_trained_again_the_newest_attempt_counts(compute: Any) -> None:
    again = {"attempts": [[[1, 2, 3], [1, 2, 3]], [[2, 3], [20, 30]]]}
    assert compute("again + 0", again=[again]) == [[{}, [[0, [1], [1]], [1, [2, 3], [20, 30]]]]]


def test_a_series_that_no_run_has_gives_no_line(compute: Any) -> None:
    assert compute("nothing + loss", loss=[LOSS]) == []


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("", "a number or the name of a series is missing", 1),
        ("1 + 2", "the name of a series is missing", 1),
        ("a +", "a number or the name of a series is missing", 4),
        ("(a", "a closing bracket is missing", 3),
        ("a b", "an operator such as + or / is missing", 3),
        ("a ? b", "“?” means nothing here", 3),
        ('"a', "“\"” means nothing here", 1),
        ("f(a)", "there is no function f", 1),
        ("1 + constructor(a)", "there is no function constructor", 5),
        ("ema(a)", "ema takes 2 of 1", 1),
        ("ema(a, 2)", "the second of ema is a number from 0 to 1", 1),
        ("mean(a, b)", "the second of mean is a number of points", 1),
        ("a" * 501, "at most 500 characters", 501),
        ("(" * 60 + "a" + ")" * 60, "too many brackets", 51),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_with_its_character(ask: Ask, text: str, message: str, position: int) -> None:
    found = ask(MODULE, "({parsed}, text) => { try { parsed(text) } catch (error) { return error.message } }", text)
    assert found.startswith(message)
    assert found.endswith(f", at character {position}")


def test_a_line_over_another_series_has_its_values_in_the_place_of_steps(ask: Ask) -> None:
    function = """({against}) => {
      const column = (values) => Float64Array.from(values, Number);
      const line = (step, value) => ({labels: {}, parts: new Map([[0,
        {step: column(step), time: column(step), value: column(value), seams: []}]])});
      const part = against(line([1, 2, 3], [7, 8, 9]), [line([1, 2, 3], [100, "NaN", 300])]).get(0);
      return [[...part.step], [...part.value]];
    }"""
    assert ask(MODULE, function) == [[100, 300], [7, 9]]
