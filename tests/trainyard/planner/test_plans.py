"""Other plans: valid, fitting, different from each other, quickest first."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # plans.py stands beside the tests
from plans import GIB, NODE, RATES, spec_of

from trainyard.planner import best_plans
from trainyard.spec import merge, parse_spec


def test_three_plans_are_found_quickest_first_and_each_is_valid() -> None:
    spec = spec_of(world=4, batch_size=32)
    found = best_plans(spec, [NODE], RATES)
    assert len(found) == 3
    speeds = [one.estimate.units_per_second for one in found]
    assert speeds == sorted(speeds, reverse=True)
    meshes = set()
    for one in found:
        planned = parse_spec(merge(spec.resolved(), one.changes))
        meshes.add(planned.mesh().degrees)  # type: ignore[attr-defined]
    assert len(meshes) == 3


def test_a_plan_says_what_it_changes_and_what_that_brings() -> None:
    found = best_plans(spec_of(world=2), [NODE], RATES)
    by_changes = {tuple(one.changes): one.sentence for one in found}
    assert by_changes[()] == "The plan as it is."
    sentence = by_changes[("parallel.shard",)]
    assert sentence.startswith("Shard 2 in place of data 2: needs ")
    assert sentence.endswith(("slower.", "as quick."))


def test_what_does_not_fit_is_not_proposed() -> None:
    model = {"layers": 8, "width": 1024, "heads": 8}
    spec = spec_of(world=8, batch_size=8, model=model, checkpoint={"every_steps": 0})
    small = replace(NODE, memory_bytes=1 * GIB)
    found = best_plans(spec, [small], RATES)
    assert found
    assert all(one.estimate.fits for one in found)
    assert "fits" in found[0].sentence


def test_where_nothing_fits_activations_are_computed_again() -> None:
    spec = spec_of(world=1, batch_size=64, checkpoint={"every_steps": 0})
    found = best_plans(spec, [replace(NODE, memory_bytes=450 * 2**20)], RATES)
    assert [one.changes for one in found] == [{"train.activation_checkpointing": "full"}]


def test_where_even_that_is_too_much_there_is_none() -> None:
    assert best_plans(spec_of(), [replace(NODE, memory_bytes=2**20)], RATES) == []


def test_agreement_in_rounds_keeps_to_what_goes_with_it() -> None:
    spec = spec_of(world=4, parallel={"synchronization": {"kind": "local-sgd"}})
    assert [one.changes for one in best_plans(spec, [NODE], RATES)] == [{}]


@pytest.mark.parametrize("world", [8, 64])
def test_plans_are_found_while_one_types(world: int) -> None:
    spec = spec_of(world=world, batch_size=64, model={"layers": 48, "width": 1024, "heads": 16})
    best_plans(spec, [NODE], RATES)
    started = time.process_time()
    best_plans(spec, [NODE], RATES)
    assert time.process_time() - started < 0.3  # 0.1 s on a machine with nothing else to do


def test_degrees_of_every_axis_of_the_strategies_are_tried() -> None:
    model = {"layers": 1, "width": 48, "heads": 3, "context": 1024}  # no tensor ranks, and no stages
    spec = spec_of(world=4, batch_size=1, model=model, parallel={"context": 4})
    assert [one.changes for one in best_plans(spec, [NODE], RATES)] == [{}]
    two_rows = spec_of(world=4, batch_size=2, model=model, parallel={"context": 4})
    found = [
        one.estimate and dict(one.changes).get("parallel.context", 4) for one in best_plans(two_rows, [NODE], RATES)
    ]
    assert set(found) == {2, 4}
