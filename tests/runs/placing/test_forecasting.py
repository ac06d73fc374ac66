"""When waiting runs are expected to start: the queue played forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from runs.placing.fitting import GPU, Request, Room
from runs.placing.forecasting import Hold, starts
from runs.placing.spans import Outcome, Span, corrected, same, span_of


def room(name: str, slots: int = 2, free: int = 0) -> Room:
    return Room(name, name, slots, tuple(range(free)))


def expected(requests: list[Request], rooms: list[Room], holds: list[Hold], lasts: dict[str, Span]) -> dict[str, float]:
    return {run: span.expected for run, span in starts(requests, rooms, holds, lasts).items()}


def test_each_starts_when_what_is_before_it_has_ended() -> None:
    queue = [Request(name, 1, 2) for name in "abc"]
    lasts = {name: same(50.0) for name in "abc"}
    found = expected(queue, [room("x")], [Hold("live", "x", 2)], lasts | {"live": same(10.0)})
    assert found == {"a": 10.0, "b": 60.0, "c": 110.0}


def test_what_is_free_starts_now_and_two_nodes_are_waited_for_together() -> None:
    queue = [Request("wide", 2, 2), Request("small", 1, 1)]
    rooms = [room("x"), room("y", free=2)]
    assert expected(queue, rooms, [Hold("live", "x", 2)], {"wide": same(5.0), "live": same(30.0)}) == {
        "wide": 30.0,
        "small": 35.0,
    }


def test_a_short_run_passes_a_wide_one_at_the_next_end_and_a_long_one_does_not() -> None:
    queue = [Request("wide", 2, 2), Request("short", 1, 1), Request("long", 1, 1)]
    holds = [Hold("p", "x", 2), Hold("q", "y", 1), Hold("r", "y", 1)]
    lasts = {"wide": same(5.0), "short": same(15.0), "long": same(100.0)}
    lasts |= {"p": same(30.0), "q": same(10.0), "r": same(20.0)}
    assert expected(queue, [room("x"), room("y")], holds, lasts) == {"short": 10.0, "wide": 30.0, "long": 35.0}


def test_the_band_and_the_middle_come_from_draws_of_the_runs_ahead() -> None:
    queue = [Request(f"{number:02}", 1, 2) for number in range(40)]
    most, few = (10.0,) * 9, (1000.0,)
    tail = Span(10.0, 10.0, 1000.0, most + few)
    lasts = {one.run: tail for one in queue} | {"live": same(0.0)}
    last = starts(queue, [room("x")], [Hold("live", "x", 2)], lasts)["39"]
    assert last.low < last.expected < last.high
    assert 1_500 < last.expected < 8_000, "the mean is 39 x 109 s, forty medians would be 390 s"


def test_behind_what_nobody_can_say_nothing_is_said() -> None:
    queue = [Request("a", 1, 1), Request("b", 1, 2)]
    holds = [Hold("p", "x", 1), Hold("q", "x", 1)]
    assert expected(queue, [room("x")], holds, {"a": same(1.0), "p": same(10.0)}) == {"a": 10.0}


def test_nobody_passes_a_run_of_which_nobody_can_say_when_it_starts() -> None:
    queue = [Request("wide", 2, 2), Request("short", 1, 1)]
    holds = [Hold("unknown", "x", 2), Hold("p", "y", 2)]
    assert expected(queue, [room("x"), room("y")], holds, {"short": same(1.0), "p": same(10.0)}) == {}


def test_a_run_that_takes_either_kind_is_not_expected_on_both_at_once() -> None:
    queue = [Request("wide", 2, 2), Request("short", 1, 1)]  # two nodes: both with GPUs, or none
    rooms = [replace(room("g"), accelerator=GPU), replace(room("h"), accelerator=GPU), room("x", free=2)]
    holds = [Hold("p", "g", 2), Hold("q", "h", 2)]
    lasts = {"wide": same(5.0), "short": same(25.0), "p": same(10.0), "q": same(40.0)}
    assert expected(queue, rooms, holds, lasts) == {"short": 0.0, "wide": 40.0}


def test_ends_on_nodes_that_a_run_may_not_have_are_not_waited_for() -> None:
    queue = [Request("picky", 1, 2, excluded=frozenset({"x"})), Request("short", 1, 1)]
    holds = [Hold("p", "x", 1), Hold("q", "x", 1), Hold("r", "y", 2)]
    lasts = {"picky": same(1.0), "short": same(25.0), "p": same(10.0), "q": same(15.0), "r": same(40.0)}
    assert expected(queue, [room("x"), room("y")], holds, lasts) == {"short": 10.0, "picky": 40.0}


def test_what_is_left_follows_from_runs_that_took_longer_than_it_has_so_far() -> None:
    assert span_of([10.0, 20.0]) is None
    assert span_of([10.0, 20.0, 30.0], elapsed=15.0) == Span(6.0, 10.0, 14.0, (5.0, 15.0))
    assert span_of([10.0, 20.0, 30.0], elapsed=100.0) == Span(10.0, 50.0, 200.0), "it has outlived them all"


def outcomes(number: int, came: Callable[[int], float], high: float = 200.0) -> list[Outcome]:
    return [Outcome(100.0, 100.0, 50.0, high, came(place)) for place in range(number)]


def test_few_outcomes_correct_nothing() -> None:
    assert corrected(same(100.0), outcomes(19, lambda _: 500.0)) == same(100.0)


def test_a_band_is_as_wide_as_four_of_five_outcomes_of_predictions_like_it() -> None:
    past = outcomes(40, lambda place: 100.0 + 10 * place, high=400.0)  # 31 of 40 are inside
    low, expected, high, _ = corrected(Span(990.0, 1000.0, 1010.0), past)
    assert (round(low, -2), round(high, -2)) == (1400.0, 4500.0)
    assert low == expected, "what is expected lies in the band"


def test_where_bands_missed_too_often_they_become_wider() -> None:
    few, many = (
        corrected(same(100.0), outcomes(100, lambda place: 10.0 * place, high=high)) for high in (990.0, 300.0)
    )
    assert many.low < few.low < few.high < many.high


def test_predictions_unlike_it_say_nothing_of_it() -> None:
    long = [Outcome(1e5, 1e5, 1e5, 1e5, 5e5)] * 100
    assert corrected(same(100.0), outcomes(40, lambda _: 100.0) + long).high == 100.0


def test_an_outcome_is_near_within_a_minute_or_a_tenth_of_the_wait() -> None:
    told = [Outcome(0, expected, 0, 0, came).is_near for expected, came in ((0, 60), (0, 61), (900, 1000), (899, 1000))]
    assert told == [True, False, True, False]
