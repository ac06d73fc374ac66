"""Times in a spec: how they are written, and which are refused."""

from __future__ import annotations

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.document import parse_document
from trainyard.spec.sweeps import parse_sweep, space_problems, trial_document

DOCUMENT = {"name": "net", "task": {"recipe": "language-model"}}
SWEEP = {
    "base": DOCUMENT,
    "space": {"train.learning_rate": {"values": [0.1, 0.2]}},
    "budget": {"trials": 2},
    "objective": {"metric": "val/loss", "direction": "minimize"},
}


def refusals(**fields: object) -> dict[str, str]:
    with pytest.raises(SpecError) as error:
        parse_spec({**DOCUMENT, **fields})
    return {problem.path: problem.message for problem in error.value.errors}


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("2026-11-28T06:00:00Z", "2026-11-28T06:00:00Z"),
        ("2026-11-28 06:00", "2026-11-28T06:00:00Z"),
        ("2026-11-28T06:00+02:00", "2026-11-28T04:00:00Z"),
        ("2026-11-28", "2026-11-28T00:00:00Z"),
        (" ", ""),
        (None, ""),
    ],
)
def test_a_time_is_kept_in_one_way(typed: object, kept: str) -> None:
    spec = parse_spec({**DOCUMENT, "not_before": typed})
    assert spec.resolved()["not_before"] == kept
    assert parse_spec(spec.resolved()) == spec


def test_yaml_s_own_times_are_texts() -> None:
    text = "name: net\ntask: {recipe: language-model}\nnot_before: 2026-11-28T06:00:00+01:00"
    assert parse_spec(parse_document(text, "net.yaml")).resolved()["not_before"] == "2026-11-28T05:00:00Z"


@pytest.mark.parametrize("typed", ["tomorrow", "06:00", "2026-02-30", "9999-12-31T23:59-05:00", "NaN", "<b>"])
def test_what_is_no_time_is_refused_with_an_example(typed: str) -> None:
    words = refusals(not_before=typed)["not_before"]
    assert f'"{typed}"' in words and words.startswith("must be a time")


def test_a_number_and_a_truth_are_no_times() -> None:
    assert refusals(not_before=20261128) == {"not_before": "must be text, not 20261128; put it in quotes"}
    assert "not_before" in refusals(not_before=False)


def test_what_waits_for_no_run_says_nothing_of_their_end_and_names_are_names() -> None:
    assert "after.runs names none" in refusals(after={"on": "any"})["after.on"]
    assert list(refusals(after={"runs": ["<b>", 3]})) == ["after.runs.0", "after.runs.1"]
    assert refusals(after={"runs": ["a"] * 101})["after.runs"].startswith("must have at most 100 entries")


@pytest.mark.parametrize(
    ("array", "path"),
    [
        ({"size": 1001}, "array.size"),
        ({"size": -1}, "array.size"),
        ({"at_once": 2}, "array.at_once"),
        ({"index": 0}, "array.index"),
        ({"size": 3, "index": 3}, "array.index"),
        ({"size": 3, "many": 1}, "array.many"),
        ({"size": float("nan")}, "array.size"),
    ],
)
@pytest.mark.parametrize("task", [DOCUMENT["task"], {"script": "train.py", "code": "."}])
def test_what_is_no_array_is_refused(array: dict[str, object], path: str, task: object) -> None:
    assert list(refusals(array=array, task=task)) == [path]


def test_large_specs_are_not_launched_a_thousand_times() -> None:
    task = {"script": "train.py", "code": ".", "environment": {f"V{one}": "x" * 1_000 for one in range(100)}}
    assert "at most 67,108,864 in all" in refusals(task=task, array={"size": 1_000})["array.size"]
    assert parse_spec({**DOCUMENT, "task": task, "array": {"size": 1_000, "index": 7}}).array.index == 7


def test_names_have_room_for_the_last_number() -> None:
    assert "at most 120 fit" in refusals(name="n" * 118, array={"size": 11})["name"]
    assert parse_spec({**DOCUMENT, "name": "n" * 118, "array": {"size": 10}}).array.launches_many


def test_arguments_name_the_number_and_a_sweep_has_no_array() -> None:
    task = {"script": "train.py", "code": ".", "arguments": ["--part=${TRAINYARD_ARRAY_INDEX}"]}
    assert parse_spec({**DOCUMENT, "task": task, "array": {"size": 2}}).array.size == 2
    sweep = parse_sweep({"name": "s", **SWEEP})
    (problem,) = space_problems(sweep, {**DOCUMENT, "array": {"size": 2}})
    assert problem.path == "base.array.size"
    assert not space_problems(sweep, {**DOCUMENT, "array": {"size": 2, "index": 1}})


def test_a_deadline_comes_after_the_start_and_no_trial_has_one() -> None:
    words = refusals(deadline="2026-11-28", not_before="2026-11-28T02:00+02:00")["deadline"]
    assert words == "2026-11-28T00:00:00Z is not later than not_before, which is 2026-11-28T00:00:00Z"
    sweep = parse_sweep({"name": "s", **SWEEP})
    assert trial_document(sweep, {**DOCUMENT, "deadline": "2126-11-28"}, 0, {})["deadline"] == ""
