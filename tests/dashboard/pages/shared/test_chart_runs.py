from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from zlib import crc32

import pytest
from django.utils import timezone

from dashboard.pages.shared import chart_runs as chart_runs_module
from dashboard.pages.shared.chart_runs import MAX_CHARS, MAX_FIELDS, chart_runs, charts_context, fields_of
from runs.actions import note_step
from runs.models import Attempt, Run, Workspace
from runs.records.metrics.models import Checkpoint, Series
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, spec

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]


def end(attempt: Attempt, sentence: str) -> None:
    attempt.ended_at, attempt.reason_sentence = timezone.now(), sentence
    attempt.save()


def test_a_run_says_what_charts_write_beside_its_points(make_run: MakeRun) -> None:
    run = make_run(name="hello", status=Status.RUNNING)
    (found,) = chart_runs([run])
    assert run.started_at is not None
    assert found["start"] == run.started_at.timestamp()
    assert (found["id"], found["name"], found["status"], found["isLive"]) == (run.pk, "hello", "running", True)
    assert found["colour"] == crc32(run.pk.encode()) % 10
    assert found["fields"]["train.batch_size"] == "32"
    assert found["attempts"] == []


def test_relative_time_of_a_run_that_never_ran_counts_from_its_creation(make_run: MakeRun) -> None:
    run = make_run()
    assert chart_runs([run])[0]["start"] == run.created_at.timestamp()


def test_a_later_attempt_says_why_it_began_and_from_where_it_went_on(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    node = make_node(cast.cluster)
    first = make_attempt(run, [node], ranks=0)
    end(first, "Rank 0 on node-b was killed by SIGKILL in step 110.")
    run.record("restarted", "Restarted by mate.")
    second = make_attempt(run, [node], ranks=0)
    run.record("restored", "Continues from step 100 of attempt 1.", attempt=second)
    attempts = chart_runs([run])[0]["attempts"]
    assert [(one["fence"], one["number"]) for one in attempts] == [(1, 1), (2, 2)]
    assert attempts[0]["cause"] == ""
    assert attempts[1]["cause"] == (
        "Attempt 2 began. Attempt 1 ended: Rank 0 on node-b was killed by SIGKILL in step 110. "
        "Restarted by mate. Continues from step 100 of attempt 1."
    )


def test_charts_mark_notes_checkpoints_and_what_else_may_explain_a_line(cast: Cast, make_run: MakeRun) -> None:
    run = make_run(status=Status.RUNNING)
    note_step(actor=cast.mate, run=run, step=40, text=" new\ndata\x00 from here ")
    run.record("straggler", "Rank 1 is slow.")
    run.record("submitted", "Submitted.")
    Checkpoint.objects.create(run_id=run.pk, step=1_000, fence=1, at=5.0)
    Checkpoint.objects.create(run_id=run.pk, step=2_000, fence=1, at=6.0, invalid_why="torn")
    marks = chart_runs([run])[0]["marks"]
    assert [(one["kind"], one["step"], one["sentence"]) for one in marks] == [
        ("event", None, "Rank 1 is slow."),
        ("note", 40, "mate: new data from here"),
        ("checkpoint", 1_000, "Checkpoint of step 1,000"),
    ]
    many = chart_runs([run, *[make_run() for _ in range(4)]])
    assert all(one["marks"] == [] for one in many), "of many runs nobody would tell whose they are"


def test_each_run_has_its_own_attempts_and_their_number_costs_no_more_queries(
    cast: Cast, make_run: MakeRun, django_assert_num_queries: Callable[[int], AbstractContextManager[object]]
) -> None:
    node = make_node(cast.cluster)
    runs = [make_run(name=f"run-{number}") for number in range(5)]
    for number, run in enumerate(runs):
        for _ in range(number):
            end(make_attempt(run, [node], ranks=0), "It ended.")
    with django_assert_num_queries(2):
        found = chart_runs(runs)
    assert [len(one["attempts"]) for one in found] == [0, 1, 2, 3, 4]


def test_fields_are_the_leaves_of_a_spec_as_short_texts() -> None:
    fields = fields_of(spec(parallel={"data": 2, "axes": ["data", "tensor"], "empty": {}}, note="x" * 500))
    assert fields["parallel.data"] == "2"
    assert fields["parallel.axes"] == "data, tensor"
    assert fields["parallel.empty"] == "{}"
    assert fields["cluster"] == "local"
    assert len(fields["note"]) == MAX_CHARS and fields["note"].endswith("…")
    assert "name" not in fields


def test_a_spec_of_many_fields_is_cut() -> None:
    assert len(fields_of({f"field-{number}": number for number in range(10_000)})) == MAX_FIELDS


def test_the_page_knows_how_this_person_looks_at_charts_of_the_project(cast: Cast, make_run: MakeRun) -> None:
    runs = [make_run(), make_run()]
    state = {"axis": "time"}
    Workspace.objects.create(user=cast.mate, project=cast.project, state=state)
    context = charts_context(cast.mate, runs, colours={runs[1].pk: 7})["charts"]
    assert (context["project_id"], context["state"]) == (cast.project.pk, state)
    assert [one["colour"] for one in context["runs"]] == [crc32(runs[0].pk.encode()) % 10, 7]
    assert charts_context(cast.owner, runs)["charts"]["state"] == {}


def test_without_a_run_there_is_nothing_to_know(cast: Cast) -> None:
    assert charts_context(cast.mate, []) == {
        "charts": {
            "runs": [],
            "project_id": "",
            "state": {},
            "layout": {},
            "may_lay_out": False,
            "series": [],
            "axes": {},
        }
    }


def test_the_page_comes_with_the_first_series_of_its_runs(
    cast: Cast, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run(name=name) for name in ("one", "two")]
    for run, name, labels in ((runs[0], "train/loss", {}), (runs[1], "rank/seconds", {"rank": "0"})):
        Series.objects.create(run_id=run.pk, name=name, labels=labels, labels_key=str(labels))
    Series.objects.create(run_id="another", name="train/secret")
    assert charts_context(cast.mate, runs)["charts"]["series"] == [
        {"run": runs[1].pk, "name": "rank/seconds", "labels": {"rank": "0"}},
        {"run": runs[0].pk, "name": "train/loss", "labels": {}},
    ]
    monkeypatch.setattr(chart_runs_module, "MAX_SERIES", 1)
    assert len(charts_context(cast.mate, runs)["charts"]["series"]) == 1
