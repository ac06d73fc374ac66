"""Of a long sweep the charts get some trials and bars, and lose nothing that stands out."""

from __future__ import annotations

from runs.sweeps.analysis.slots import Occupation, timeline
from runs.sweeps.analysis.thinning import thinned, thinned_bars
from tests.sweep_trials import trial

TRIALS = [
    trial(number, None if number % 10 == 9 else float(number * 37 % 1000), {"rate": float(number * 13 % 1000)})
    for number in range(1_000)
]


def test_a_short_sweep_is_drawn_whole() -> None:
    assert thinned(TRIALS[:50], ["rate"], "minimize", [], most=50) == TRIALS[:50]


def test_what_is_kept_of_a_long_one_has_its_best_trials_its_ends_and_what_was_named() -> None:
    found = thinned(TRIALS, ["rate"], "minimize", [639], most=100)
    numbers, values = [one.number for one in found], [one.value for one in found if one.value is not None]
    assert len(found) <= 100 and numbers == sorted(numbers) and 639 in numbers
    best = sorted(one.value for one in TRIALS if one.value is not None)[:25]
    assert set(best) <= set(values) and max(values) == max(one.value or 0 for one in TRIALS)
    rates = [one.parameters["rate"] for one in found]
    assert (min(rates), max(rates)) == (0.0, 999.0)
    assert sum(one.value is None for one in found) in range(5, 15)  # a tenth of all has no value
    assert max(values) in [one.value for one in thinned(TRIALS, [], "maximize", [], most=40)]


def test_of_bars_that_are_narrower_than_a_pixel_the_longest_stays() -> None:
    occupations = [Occupation(at, "node", 1, at * 10.0, at * 10.0 + (9 if at == 500 else 1)) for at in range(1_000)]
    found = timeline(occupations)
    thin = thinned_bars(found, most=100)
    assert len(thin.bars) <= 101 and thin.lanes == found.lanes and 500 in [one.number for one in thin.bars]
    assert thinned_bars(found) is found
