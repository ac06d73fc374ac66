"""An estimate as bars and sentences."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.pages.shared.estimate import memory_bars, overflow, spans, suggestion, time_bar, view
from trainyard.planner import Estimate, Memory, Proposal, StepTime
from trainyard.spec import RecipeSpec, parse_spec

MIB, GIB = 2**20, 2**30


def memory(activations: float = 40 * MIB) -> Memory:
    return Memory(180 * MIB, 20 * MIB, 20 * MIB, 40 * MIB, activations)


def estimate(**changes: Any) -> Estimate:
    values: dict[str, Any] = {
        "memory": (memory(), memory()),
        "memory_limits": (GIB, GIB),
        "step_time": StepTime(0.6, 0.3, 0.0, 0.1),
        "sent_bytes": 2.5 * MIB,
        "bubble": 0.0,
        "num_parameters": 591_000,
        "flops_per_step": 17.4e9,
        "unit": "tokens",
        "units_per_second": 4096.0,
        "warnings": (),
        "is_measured": False,
    }
    return Estimate(**{**values, **changes})


def recipe(**changes: Any) -> RecipeSpec:
    spec = parse_spec({"name": "x", "task": {"recipe": "language-model"}, "resources": {"nodes": 2}, **changes})
    assert isinstance(spec, RecipeSpec)
    return spec


def test_the_bars_parts_stand_one_behind_the_other_and_fill_it() -> None:
    bar = time_bar(estimate())
    assert (bar.total, bar.range) == ("1.00 s", "750 ms to 1.25 s")
    assert [(one.name, one.text, one.left, one.width) for one in bar.slices] == [
        ("Compute", "600 ms", "0.00%", "60.00%"),
        ("Communication", "300 ms", "60.00%", "30.00%"),
        ("Optimizer", "100 ms", "90.00%", "10.00%"),
    ]


def test_ranks_that_hold_the_same_share_a_bar() -> None:
    (bar,) = memory_bars(recipe(), estimate())
    assert (bar.label, bar.total, bar.range) == ("Each of the 2 ranks", "300 MiB", "255 to 345 MiB")
    assert (bar.limit, bar.percent, bar.tone) == ("1.0 GiB", "34 %", ""), "the high end must fit"


def test_stages_that_differ_have_a_bar_each_the_fullest_first() -> None:
    spec = recipe(parallel={"pipeline": {"stages": 2}})
    bars = memory_bars(spec, estimate(memory=(memory(), memory(2 * GIB))))
    assert [bar.label for bar in bars] == ["Rank 1, stage 1", "Rank 0, stage 0"]
    assert [bar.tone for bar in bars] == ["red", ""]


@pytest.mark.parametrize(
    ("limit", "tone", "words"), [(350, "", ""), (320, "amber", "It may not fit"), (250, "red", "It does not fit")]
)
def test_what_may_not_fit_is_amber_and_what_does_not_is_red(limit: int, tone: str, words: str) -> None:
    bars = memory_bars(recipe(), estimate(memory_limits=(limit * MIB, limit * MIB)))
    assert bars[0].tone == tone
    rest = f" into memory: each of the 2 ranks would need 255 to 345 MiB, and the node has {limit} MiB for a rank."
    assert overflow(bars) == (f"{words}{rest}" if words else "")


def test_a_limit_that_nobody_knows_is_not_shown() -> None:
    (unknown,) = memory_bars(recipe(), estimate(memory_limits=(0, 0)))
    assert (unknown.limit, unknown.tone, unknown.range) == ("", "", "255 to 345 MiB")


def test_the_facts_say_what_all_steps_take_and_what_is_sent() -> None:
    facts = dict(view(recipe(), estimate()).facts)
    assert facts["All 300 steps"] == "about 5 min"
    assert facts["Throughput"] == "4.10k tok/s"
    assert facts["Sent in a step"] == "2.5 MiB by the busiest rank"
    assert "Pipeline bubble" not in facts
    assert dict(view(recipe(), estimate(bubble=0.25, sent_bytes=0)).facts)["Pipeline bubble"] == "25 % of a step"


def test_a_cost_of_next_to_nothing_is_said_in_words() -> None:
    assert ("Slot-hours", "less than 0.01") in view(recipe(train={"steps": 10}), estimate()).facts


def test_that_speeds_are_assumed_is_no_warning_since_the_page_says_it_with_a_link() -> None:
    warnings = ("Tight.", "Speeds are assumed: run the communication benchmark on this cluster to measure them.")
    assert view(recipe(), estimate(warnings=warnings)).warnings == ["Tight."]


def test_a_suggestion_says_the_fields_that_it_changes_as_the_form_shows_them() -> None:
    changes = {"parallel.shard": 2, "parallel.reshard_after_forward": False}
    mine = suggestion(recipe(), Proposal({}, estimate(), "As it is."), 1.0)
    better = suggestion(recipe(), Proposal(changes, estimate(), "Less."), 1.0)
    assert not mine.fields and not mine.sentence
    assert better.fields == {"parallel.shard": "2", "parallel.reshard_after_forward": ""}
    assert better.changes == "shard degree 2, reshard after forward off"
    assert (better.time, better.memory, better.sentence) == ("750 ms to 1.25 s", "345 MiB", "Less.")
    assert suggestion(recipe(), Proposal(changes, estimate(), "Less."), 2.0).time == "1.50 to 2.50 s", "as was measured"


@pytest.mark.parametrize(
    ("ranks", "words"),
    [([0], "0"), ([0, 1], "0 and 1"), ([0, 2, 3, 4], "0, 2 to 4"), (range(0, 20, 2), "0, 2, 4, 6, …")],
)
def test_ranks_are_named_in_spans(ranks: list[int], words: str) -> None:
    assert spans(ranks) == words
