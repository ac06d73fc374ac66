"""Figures of a scaling study: where a step's time went, and what the next size would bring. Pure.

With strong scaling a step is the same work at each size, with weak scaling it grows with the ranks.
"""

from collections.abc import Sequence

import numpy as np

from trainyard.contract.answers.sweeps import Prediction, ScalingSize
from trainyard.formats.figures import percent, seconds
from trainyard.planner.results import TIME_RANGE

MOST_OFF = 0.9  # a fitted step is known to that share at the worst
WORTH_NAMING = 0.03  # of a step
LOST = {
    "compute": "computing that ranks do not share", "communication": "messages between ranks",
    "waiting": "waiting for the slowest rank", "data": "waiting for data", "checkpoint": "checkpoints",
    "other": "what no phase counts",
}  # fmt: skip


def compare(sizes: Sequence[ScalingSize], *, is_weak: bool) -> None:
    """Fill in what each size is beside the first measured one, and what the smaller ones promise of it. Losses are the
    shares of a step that ideal scaling would not have, the largest first; one below 0 was won."""
    first = next((one for one in sizes if one["step_s"]), None)
    for place, one in enumerate(sizes):
        one["predicted"] = predicted(sizes[:place], one, is_weak=is_weak)
        if not (first and first["step_s"] and one["step_s"]):
            continue
        growth = one["ranks"] / first["ranks"]
        ideal = 1.0 if is_weak else 1 / growth  # of the first's step
        efficiency = ideal * first["step_s"] / one["step_s"]
        one["efficiency"], one["speed_up"] = efficiency, growth * efficiency
        if one is not first and one["parts"].keys() == first["parts"].keys() != set():
            parts = {name: (took - ideal * first["parts"][name]) / one["step_s"] for name, took in one["parts"].items()}
            parts["other"] = 1 - efficiency - sum(parts.values())
            one["losses"] = dict(sorted(parts.items(), key=lambda part: -part[1]))


def predicted(smaller: Sequence[ScalingSize], size: ScalingSize, *, is_weak: bool) -> Prediction | None:
    """Return the speed-up that the ``smaller`` sizes promise; None where they do not say.

    The planner's step counts as it changed from the largest measured one. Else it is a + b / ranks by least squares:
    what is not shared and what is (Amdahl 1967) or, of weak scaling, a ring's messages (Patarasuk & Yuan 2009). Then it
    is as sure as the steps are alike.
    """
    known = [one for one in smaller if one["step_s"]]
    steps = np.array([one["step_s"] for one in known], dtype=float)
    if known and known[-1]["planned_s"] and size["planned_s"]:
        step_s, off, by = steps[-1] * size["planned_s"] / known[-1]["planned_s"], TIME_RANGE, "planner"
    elif len(known) > 1:
        places = np.array([(1.0, 1 / one["ranks"]) for one in known])
        inverse, by = np.linalg.pinv(places), "ring" if is_weak else "amdahl"
        weights = np.array((1.0, 1 / size["ranks"])) @ inverse
        step_s, rest = weights @ steps, places @ inverse @ steps - steps
        spread = np.abs(weights) @ (steps * [one["spread"] for one in known]) + np.sqrt(np.mean(rest**2))
        off = min(float(spread / step_s), MOST_OFF)
    else:
        return None
    times = float(steps[0] / step_s) * (size["ranks"] / known[0]["ranks"] if is_weak else 1.0)
    if not 0 < times < 1e6:  # the fit leads to no time at all, or below
        return None
    return {"speed_up": times, "low": times / (1 + off), "high": times / (1 - off), "by": by}


def verdict(sizes: Sequence[ScalingSize]) -> str:
    """Return what the study says, in one sentence."""
    measured = [one for one in sizes if one["speed_up"]]
    if not measured:
        return "No size is measured: each row says how far it is, or why not."
    first, last = measured[0], measured[-1]
    said = f"{last['ranks']} ranks train {last['speed_up']:.1f} times as fast as {first['ranks']}"
    if first is last:
        said = f"A step takes {seconds(last['step_s'])} on {last['ranks']} rank{'s' * (last['ranks'] > 1)}"
    for one in sizes:
        if one["ranks"] > last["ranks"] and (found := one["predicted"]):
            times, ideal = (f"{value:.1f}" for value in (found["speed_up"], one["ranks"] / first["ranks"]))
            said += f"; {one['ranks']} would bring {times}" + f", not {ideal.removesuffix('.0')}" * (times != ideal)
            break
    name, share = next(iter(last["losses"].items()), ("", 0.0))
    return said + (f": {percent(share)} of each step goes into {LOST[name]}." if share >= WORTH_NAMING else ".")
