"""Speed-up, losses and predictions of a scaling study, from plain values."""

from __future__ import annotations

from typing import Any

import pytest

from runs.sweeps.scaling import LOST, compare, predicted, verdict
from trainyard.contract.answers.sweeps import ScalingSize

ALONE = {"compute": 0.9, "communication": 0.0, "waiting": 0.0, "data": 0.1, "checkpoint": 0.0}


def size(ranks: int, step_s: float | None = None, **changes: Any) -> ScalingSize:
    found: Any = {
        "ranks": ranks, "nodes": ranks, "run": None, "state": "COMPLETE", "reason": "", "planned_s": None,
        "step_s": step_s, "steps_per_second": None, "spread": 0.0, "parts": {}, "speed_up": None, "efficiency": None,
        "losses": {}, "predicted": None, **changes,
    }  # fmt: skip
    return found  # type: ignore[no-any-return]


def test_efficiency_and_losses_add_up_to_one_and_the_verdict_names_the_largest() -> None:
    parts = {"compute": 0.45, "communication": 0.12, "waiting": 0.03, "data": 0.05, "checkpoint": 0.0}
    sizes = [size(1, 1.0, parts=ALONE), size(2, 0.65, parts=parts), size(4)]
    compare(sizes, is_weak=False)
    two = sizes[1]
    assert (two["speed_up"], two["efficiency"]) == (pytest.approx(1 / 0.65), pytest.approx(0.5 / 0.65))
    assert next(iter(two["losses"])) == "communication" and two["losses"]["communication"] == pytest.approx(0.12 / 0.65)
    assert sum(two["losses"].values()) + (two["efficiency"] or 0) == pytest.approx(1)
    assert two["losses"].keys() <= LOST.keys()
    # Of 1 s, 0.3 s stay: on 4 ranks 0.475 s.
    said = "2 ranks train 1.5 times as fast as 1; 4 would bring 2.1, not 4: "
    assert verdict(sizes) == f"{said}18 % of each step goes into messages between ranks."


def test_weak_scaling_counts_the_work_that_grows_with_the_ranks() -> None:
    sizes = [size(1, 1.0, parts=ALONE), size(2, 1.25, parts={**ALONE, "communication": 0.25})]
    compare(sizes, is_weak=True)
    assert (sizes[1]["speed_up"], sizes[1]["efficiency"]) == (pytest.approx(1.6), pytest.approx(0.8))
    assert sizes[1]["losses"]["communication"] == pytest.approx(0.2)


@pytest.mark.parametrize(("is_weak", "by", "steps"), [(False, "amdahl", (1.0, 0.6)), (True, "ring", (1.0, 1.2))])
def test_a_fit_of_two_sizes_promises_the_third_within_the_spread_of_their_steps(
    is_weak: bool, by: str, steps: tuple[float, float]
) -> None:
    smaller = [size(1, steps[0], spread=0.02), size(2, steps[1], spread=0.05)]
    found = predicted(smaller, size(4), is_weak=is_weak)
    step_s = {"amdahl": 0.4, "ring": 1.3}[by]
    assert found is not None and found["by"] == by
    assert found["speed_up"] == pytest.approx((4 if is_weak else 1) / step_s)
    assert found["low"] < found["speed_up"] < found["high"]


def test_the_planner_counts_from_the_largest_measured_size_and_a_missing_plan_leaves_the_fit() -> None:
    smaller = [size(1, 1.0, planned_s=2.0), size(2, 0.6, planned_s=1.0)]
    found = predicted(smaller, size(4, planned_s=0.5), is_weak=False)
    assert found == {"speed_up": pytest.approx(1 / 0.3), "low": pytest.approx(1 / 0.375),
                     "high": pytest.approx(1 / 0.225), "by": "planner"}  # fmt: skip
    fitted = predicted(smaller, size(4), is_weak=False)
    assert fitted is not None and fitted["by"] == "amdahl"


def test_what_cannot_be_said_is_not_said() -> None:
    assert predicted([], size(2, planned_s=1.0), is_weak=False) is None
    assert predicted([size(1, 1.0)], size(2), is_weak=False) is None
    faster_than_ideal = [size(1, 1.0), size(2, 0.3)]
    assert predicted(faster_than_ideal, size(64), is_weak=False) is None
    assert predicted([size(1, 3.0), size(2, 1.0)], size(4), is_weak=False) is None, "in no time"
    failed = [size(1), size(2)]
    compare(failed, is_weak=False)
    assert verdict(failed) == "No size is measured: each row says how far it is, or why not."
    alone = [size(1), size(2, 0.25)]
    compare(alone, is_weak=False)
    assert verdict(alone) == "A step takes 250 ms on 2 ranks."
