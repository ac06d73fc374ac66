"""Documents of neighbours of other versions are read. The fixtures are what nodes and control sent before types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trainyard.contract.base import BadDocument, WireStruct, convert, decode, encode, to_builtins
from trainyard.contract.desired import Desired, Nudge
from trainyard.contract.inspections import Answer, Inspect, Question
from trainyard.contract.machines import HealthSample
from trainyard.contract.node_status import MAX_ATTEMPTS, NodeStatus, lenient_status
from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport, RankEvidence, StopEvidence

PREVIOUS = Path(__file__).parent / "previous"
KINDS: dict[str, type[WireStruct]] = {
    "answer": Answer,
    "answer_problem": Answer,
    "desired": Desired,
    "health_sample": HealthSample,
    "inspect": Inspect,
    "node_status": NodeStatus,
    "nudge": Nudge,
    "order": Order,
    "question": Question,
    "report_failed": AttemptReport,
    "report_ready": AttemptReport,
    "report_refused": AttemptReport,
    "report_running": AttemptReport,
    "report_stopped": AttemptReport,
}
# What no version left out, or what a document means nothing without.
REQUIRED: dict[type[WireStruct], set[str]] = {
    Answer: {"question"},
    AttemptReport: {"at", "attempt", "run", "fence", "node", "phase"},
    Desired: {"at"},
    HealthSample: {"at"},
    Inspect: {"locked"},
    NodeStatus: {"at", "node"},
    Nudge: set(),
    Order: {"attempt", "run", "fence"},
    Question: {"dataset", "question", "recipe"},
}


def previous(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((PREVIOUS / f"{name}.json").read_text())
    return document


def with_unknown_fields(value: Any) -> Any:
    """Return the document as a newer version may send it: each of its objects has one field more."""
    if isinstance(value, list):
        return [with_unknown_fields(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {**{name: with_unknown_fields(one) for name, one in value.items()}, "newer": {"a": [1]}}


def test_there_is_a_fixture_of_each_document() -> None:
    assert {path.stem for path in PREVIOUS.glob("*.json")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_document_of_the_previous_version_is_read_and_written_with_the_same_fields(name: str) -> None:
    document = previous(name)
    assert_holds(to_builtins(convert(document, KINDS[name])), document)


def assert_holds(found: Any, wanted: Any) -> None:
    """Every field that the previous version knows is there with its value: it may be the one that reads."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert_holds(found[key], value)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_holds(one, other)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", ["answer", "health_sample", "inspect", "nudge", "question"])
def test_unknown_fields_at_the_top_are_ignored(name: str) -> None:
    document = previous(name)
    assert convert({**document, "newer": [1]}, KINDS[name]) == convert(document, KINDS[name])


@pytest.mark.parametrize("name", ["report_failed", "report_ready", "report_refused", "report_running"])
def test_unknown_fields_in_any_part_of_a_report_are_ignored(name: str) -> None:
    document = previous(name)
    newer = with_unknown_fields(document)
    newer["producers"] = document["producers"]
    if document["reason"]:
        newer["reason"]["evidence"] = document["reason"]["evidence"]
    assert convert(newer, AttemptReport) == convert(document, AttemptReport)


def test_unknown_fields_in_any_part_of_a_status_and_of_what_is_desired_are_ignored() -> None:
    status, desired = previous("node_status"), previous("desired")
    newer = {**status, **{part: with_unknown_fields(status[part]) for part in ("inventory", "health")}, "newer": 1}
    newer["attempts"] = {name: {**one, "newer": 1} for name, one in status["attempts"].items()}
    assert convert(newer, NodeStatus) == convert(status, NodeStatus)
    newer = {**desired, "attempts": {name: {**one, "newer": 1} for name, one in desired["attempts"].items()}}
    assert convert(newer, Desired) == convert(desired, Desired)


@pytest.mark.parametrize("name", KINDS)
def test_missing_fields_have_defaults_but_for_those_that_every_version_sends(name: str) -> None:
    kind, document = KINDS[name], previous(name)
    for field in document:
        smaller = {other: value for other, value in document.items() if other != field}
        if field in REQUIRED[kind]:
            with pytest.raises(BadDocument, match=field):
                convert(smaller, kind)
        else:
            convert(smaller, kind)


def test_evidence_has_a_type_where_its_code_is_known() -> None:
    failed = convert(previous("report_failed"), AttemptReport).reason
    stopped = convert(previous("report_stopped"), AttemptReport).reason
    assert failed is not None and stopped is not None
    rank, stop = convert(failed.evidence, RankEvidence), convert(stopped.evidence, StopEvidence)
    assert (rank.rank, rank.error and rank.error.type, rank.disk_full) == (0, "ValueError", False)
    assert (stop.killed, stop.saved and stop.saved.step) == ([1], 40)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"at": "one|two"}, "at: Expected `float`, got `str` (it is 'one|two')"),
        ({"at": -1.0}, "at: Expected `float` >= 0.0 (it is '-1.0')"),
        ({"at": float("nan")}, "at: Expected `float`, got `null` (it is 'None')"),
        ({"version": "v" * 41}, "version: Expected `str` of length <= 40 (it is 'vvvv"),
        ({"attempts": [1]}, "attempts: Expected `object`, got `array` (it is '[1]')"),
        ({"attempts": {"a": 5}}, "attempts.a: Expected `object`, got `int` (it is '5')"),
        (
            {"attempts": {"a": {"run": "r", "fence": 1}, "b": {"run": "r", "fence": 2**63}}},
            "attempts.b.fence: Expected `int` <= 9223372036854775807 (it is '9223372036854775808')",
        ),
        (
            {"attempts": {str(n): {"run": "r", "fence": 1} for n in range(MAX_ATTEMPTS + 1)}},
            f"attempts: Expected `object` of length <= {MAX_ATTEMPTS}",
        ),
        ({"attempts": {"a" * 41: {"run": "r", "fence": 1}}}, "attempts: Expected `str` of length <= 40"),
        ({"inspecting": ["q", 5]}, "inspecting.1: Expected `str`, got `int` (it is '5')"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_error_names_field_and_value(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadDocument) as refused:
        convert({**previous("node_status"), **changes}, NodeStatus)
    assert str(refused.value).startswith(problem)


def test_what_no_database_takes_is_replaced() -> None:
    report = {**previous("report_failed"), "reason": {"code": "a", "sentence": "a\0b\ud800c", "evidence": {"x": 1e999}}}
    read = decode(json.dumps(report), AttemptReport)
    assert read.reason is not None
    assert (read.reason.sentence, read.reason.evidence) == ("a\N{REPLACEMENT CHARACTER}b?c", {"x": None})


class OddText(WireStruct):
    text: str


def test_half_of_a_surrogate_pair_does_not_keep_a_document_from_being_written() -> None:
    """The last lines of a rank may hold one, and its supervisor must be able to report them."""
    assert decode(encode(OddText("\udc80")), OddText).text == "?"


def test_what_is_nested_without_end_is_refused() -> None:
    with pytest.raises(BadDocument):
        decode("[" * 100_000, NodeStatus)
    nested: Any = {}
    for _ in range(60):
        nested = {"a": nested}
    with pytest.raises(BadDocument, match="nested deeper than 50"):
        convert({**previous("report_failed"), "reason": {"evidence": nested}}, AttemptReport)


def test_sensors_of_another_shape_leave_the_rest_of_a_status() -> None:
    document = previous("node_status")
    status, left_out = lenient_status({**document, "inventory": {"gpus": [7]}, "health": {"load": "high"}})
    assert status.inventory is None and status.health is None and status.attempts
    assert left_out == {
        "inventory": "gpus.0: Expected `object`, got `int` (it is '7')",
        "health": "load: Expected `float | null`, got `str` (it is 'high')",
    }


def test_each_field_of_a_document_has_a_default_or_is_required_on_purpose() -> None:
    for kind, required in REQUIRED.items():
        assert {field.name for field in msgspec.structs.fields(kind) if field.required} == required, kind
