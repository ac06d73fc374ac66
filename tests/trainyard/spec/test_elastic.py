"""Runs on a range of nodes: which ranges are accepted, and which numbers of nodes of them are used."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import merge, parse_spec, range_sentence, usable_nodes
from trainyard.spec.problems import SpecError

RECIPE: dict[str, Any] = {"name": "x", "task": {"recipe": "language-model"}}
SCRIPT: dict[str, Any] = {"name": "x", "task": {"script": "train.py"}}


def elastic(least: Any, most: Any, **changes: Any) -> dict[str, Any]:
    return merge(RECIPE, {"resources.nodes": {"min": least, "max": most}, **changes})


def refusals(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(document)
    return dict(caught.value.errors)


def test_a_range_stays_a_range_and_is_read_again() -> None:
    spec = parse_spec(elastic(1, 4))
    assert spec.resolved()["resources"]["nodes"] == {"min": 1, "max": 4}
    assert parse_spec(spec.resolved()).resolved() == spec.resolved()
    assert (spec.resources.is_elastic, spec.resources.least_nodes, spec.resources.most_nodes) == (True, 1, 4)
    assert spec.world_size() == 1 and spec.at(3).world_size() == 3


def test_numbers_of_nodes_that_do_not_divide_the_batch_are_skipped() -> None:
    spec = parse_spec(elastic(1, 8))
    assert usable_nodes(spec) == (1, 2, 4, 8)  # of 32 samples
    assert range_sentence(spec) == "Of 1 to 8 nodes it takes 1, 2, 4 and 8: on others the rules do not hold."
    assert range_sentence(parse_spec(elastic(1, 2))) == "It trains on 1 to 2 nodes, as many as are free."
    assert usable_nodes(parse_spec(elastic(2, 5, **{"parallel.tensor": 2}))) == (2, 4)


def test_a_fixed_spec_and_a_script_have_what_they_ask_for() -> None:
    assert usable_nodes(parse_spec(merge(RECIPE, {"resources.nodes": 2}))) == (2,)
    assert usable_nodes(parse_spec(merge(SCRIPT, {"resources.nodes": {"min": 2, "max": 5}}))) == (2, 3, 4, 5)


def test_a_long_range_is_looked_through_in_a_moment() -> None:
    assert usable_nodes(parse_spec(elastic(1, 1000, **{"train.batch_size": 1024}))) == tuple(2**n for n in range(10))


@pytest.mark.parametrize(
    ("nodes", "path", "message"),
    [
        ({"min": 0, "max": 2}, "resources.nodes.min", "must be at least 1, not 0"),
        ({"min": 3, "max": 2}, "resources.nodes.min", "3 is more than resources.nodes.max, which is 2"),
        ({"min": 1, "max": 1001}, "resources.nodes.max", "must be at most 1,000, not 1001"),
        ({"min": 1.5, "max": 2}, "resources.nodes.min", "must be a whole number, not 1.5"),
        ({"min": 1}, "resources.nodes.max", "is required"),
        ({"min": 1, "max": 2, "step": 1}, "resources.nodes.step", "accepted here: min, max"),
        ({}, "resources.nodes.min", "is required"),
        ("1-4", "resources.nodes", 'must be a whole number, not "1-4"'),
    ],
    ids=str,
)
def test_a_bad_range_is_refused_by_field_and_value(nodes: Any, path: str, message: str) -> None:
    found = refusals(merge(RECIPE, {"resources.nodes": nodes}))
    assert message in found[path], found


def test_the_least_number_must_work_and_the_others_are_named() -> None:
    found = refusals(elastic(3, 8))
    assert found["train.batch_size"].startswith("32 does not divide by accumulate 1 x data degree 3 = 3")
    assert found["train.batch_size"].endswith(
        "That is on 3 nodes, which resources.nodes.min asks for; of its range these work: 4 and 8"
    )
    assert "nothing up to 3 nodes works" in refusals(elastic(3, 3))["train.batch_size"]


@pytest.mark.parametrize(
    ("changes", "path", "accepted"),
    [
        ({"parallel.data": 2}, "parallel.data", "auto"),
        ({"parallel.synchronization.kind": "local-sgd"}, "parallel.synchronization.kind", "every-step"),
        ({"parallel.synchronization.kind": "parameter-server"}, "parallel.synchronization.kind", "every-step"),
        ({"parallel.compression": "powersgd"}, "parallel.compression", "none, fp16, bf16"),
        ({"train.find_batch_size": "memory"}, "train.find_batch_size", "none"),
        ({"checkpoint.every_steps": 0}, "checkpoint.every_steps", "1 or more"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_fixes_the_world_size_is_refused_with_a_range(changes: dict[str, Any], path: str, accepted: str) -> None:
    found = refusals(elastic(2, 4, **changes))
    assert found[path].endswith(f"accepted with that: {accepted}"), found
    assert '{"min": 2, "max": 4}' in found[path]


def test_a_benchmark_measures_one_number_of_nodes() -> None:
    document = {"name": "x", "task": {"recipe": "communication-benchmark"}}
    assert "a whole number" in refusals(merge(document, {"resources.nodes": {"min": 2, "max": 4}}))["resources.nodes"]


def test_a_priority_is_a_number_up_to_a_hundred_or_one_of_three_words() -> None:
    assert parse_spec(RECIPE).resolved()["priority"] == "normal"
    for good in ("high", "low", 0, 100):
        assert parse_spec(merge(RECIPE, {"priority": good})).resolved()["priority"] == good
    for bad in ("urgent", "60", 101, -1, 1.5, True, [50], None):
        assert "from 0 to 100, high, normal or low" in refusals(merge(RECIPE, {"priority": bad}))["priority"], bad
