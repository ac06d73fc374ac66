"""The lamps are a pure function; the document is what programs rely on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from runs.models import Run
from runs.presenting.listing import Newest
from runs.presenting.runs import LampFacts, facts_of, lamps, run_document, share_done
from runs.records.metrics.models import Telemetry
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, spec

RUNNING = {"status": Status.RUNNING, "num_nodes": 2, "num_training": 2}


@pytest.mark.parametrize(
    ("facts", "name", "colour", "words"),
    [
        (LampFacts(Status.QUEUED), "process", "grey", "No process yet"),
        (LampFacts(Status.QUEUED, has_ended_attempt=True), "process", "grey", "the next has not begun"),
        (
            LampFacts(Status.RECOVERING, has_ended_attempt=True),
            "process",
            "grey",
            "of the last attempt have ended; the next",
        ),
        (
            LampFacts(Status.RUNNING, has_ended_attempt=True),
            "process",
            "grey",
            "The ranks of the last attempt have ended.",
        ),
        (LampFacts(**RUNNING, num_ended=2), "process", "grey", "The ranks have ended; what they wrote is on its way."),
        (LampFacts(**RUNNING, num_ended=1), "process", "green", "2 nodes say"),
        (LampFacts(Status.CANCELLED, was_never_placed=True), "process", "grey", "No rank was started."),
        (LampFacts(Status.STARTING, num_nodes=2, num_training=1), "process", "amber", "1 of 2 nodes"),
        (LampFacts(**RUNNING), "process", "green", "2 nodes say"),
        (LampFacts(**{**RUNNING, "status": Status.RECOVERING}, silent_nodes=("a",)), "process", "amber", "not known"),
        (LampFacts(**{**RUNNING, "status": Status.LOST}, silent_nodes=("a",)), "process", "red", "with a"),
        (LampFacts(Status.FAILED), "process", "grey", "ended"),
        (LampFacts(**RUNNING), "progress", "grey", "No step yet"),
        (LampFacts(**RUNNING, step=4, steps=9, step_age_s=1, median_step_s=0.5), "progress", "green", "Step 4 of 9"),
        (
            LampFacts(**RUNNING, step=4, step_age_s=20, median_step_s=0.5),
            "progress",
            "amber",
            "usually one takes 0.5 s",
        ),
        (LampFacts(**RUNNING, step=4, step_age_s=90, median_step_s=0.5), "progress", "red", "90 s ago"),
        (LampFacts(**RUNNING, step=4, step_age_s=90, median_step_s=60.0), "progress", "green", "60 s"),
        (
            LampFacts(**RUNNING, step=4, step_age_s=90, ingest_is_away=True),
            "progress",
            "amber",
            "Ingest is not running",
        ),
        (LampFacts(**RUNNING, record_age_s=90, ingest_is_away=True), "telemetry", "amber", "Ingest is not running"),
        (LampFacts(**RUNNING, control_silence_s=9, silent_nodes=("a",)), "process", "amber", "Control has not worked"),
        (LampFacts(**RUNNING, still_s=20), "progress", "green", "No step is logged; the ranks print or compute"),
        (LampFacts(**RUNNING, still_s=90), "progress", "amber", "for 90 s no rank has printed or computed"),
        (LampFacts(**RUNNING, still_s=600), "progress", "red", "for 10 min no rank has printed or computed"),
        (LampFacts(**RUNNING, step=4, step_age_s=1, still_s=600), "progress", "green", "Step 4"),
        (LampFacts(**RUNNING), "telemetry", "grey", "No record yet"),
        (LampFacts(**RUNNING, record_age_s=1), "telemetry", "green", "1 s ago"),
        (LampFacts(**RUNNING, record_age_s=30), "telemetry", "amber", "30 s ago"),
        (LampFacts(**RUNNING, record_age_s=90), "telemetry", "red", "90 s ago"),
        (LampFacts(Status.SUCCEEDED, record_age_s=9000), "telemetry", "green", "Everything arrived"),
        (LampFacts(Status.SUCCEEDED, "telemetry-incomplete", record_age_s=9), "telemetry", "red", "not arrived"),
    ],
)
def test_each_lamp_says_what_is_known(facts: LampFacts, name: str, colour: str, words: str) -> None:
    lamp = lamps(facts)[name]
    assert (lamp["name"], lamp["colour"]) == (name, colour)
    assert words in lamp["sentence"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (LampFacts(Status.RUNNING), None),
        (LampFacts(Status.QUEUED, steps=10), 0.0),
        (LampFacts(Status.RUNNING, step=5, steps=10), 0.5),
        (LampFacts(Status.RUNNING, step=11, steps=10), 1.0),
        (LampFacts(Status.SUCCEEDED, step=9, steps=10), 1.0),
        (LampFacts(Status.FAILED, step=9, steps=10), 0.9),
    ],
)
def test_progress_is_a_share_of_the_steps(facts: LampFacts, expected: float | None) -> None:
    assert share_done(facts) == expected


def test_the_lamps_of_a_run_come_from_its_live_attempt(cast: Cast, make_run: Callable[..., Run]) -> None:
    run, now = make_run(status=Status.RUNNING), timezone.now()
    attempt = make_attempt(run, [make_node(cast.cluster), make_node(cast.cluster)], phase=Phase.RUNNING)
    attempt.placements.update(reported_at=now)
    document = run_document(run, Telemetry(run_id=run.pk, step=3, step_at=now.timestamp() - 1), {}, now)
    assert document["lamps"]["process"]["colour"] == "green"
    assert (document["step"], document["attempt"]) == (3, 1)
    attempt.placements.filter(node_rank=1).update(reported_at=now - timedelta(minutes=1))
    document = run_document(Run.objects.get(pk=run.pk), None, None, now)
    assert document["lamps"]["process"]["colour"] == "amber"


def test_a_script_has_no_number_of_steps(make_run: Callable[..., Run]) -> None:
    run = make_run(spec=spec(task={"script": "train.py"}))
    document = run_document(run, None, None, timezone.now())
    assert (document["steps"], document["progress"]) == (None, None)


def test_the_bytes_of_a_benchmark_are_no_steps(make_run: Callable[..., Run]) -> None:
    benchmark = {**spec(), "task": {"recipe": "communication-benchmark"}}
    telemetry = Telemetry(step=16_777_216, step_at=timezone.now().timestamp())
    assert facts_of(make_run(spec=benchmark), Newest(), [], telemetry, timezone.now()).step is None
    assert facts_of(make_run(), Newest(), [], telemetry, timezone.now()).step == 16_777_216


def test_the_troubles_of_a_run_are_counted_and_said(cast: Cast, make_run: Callable[..., Run]) -> None:
    run = make_run()
    telemetry = Telemetry(run_id=run.pk, troubles={"repeated": 2, "lost_points": 7, "bad_frame": 0})
    document = run_document(run, telemetry, None, timezone.now())
    assert [(one["code"], one["count"]) for one in document["troubles"]] == [("lost_points", 7), ("repeated", 2)]
    assert document["troubles"][0]["sentence"].startswith("7 points were lost")
    assert run_document(run, None, None, timezone.now())["troubles"] == []


def test_between_the_end_of_the_ranks_and_of_the_run_nobody_reads_that_there_is_no_process_yet(
    cast: Cast, make_run: Callable[..., Run]
) -> None:
    def said() -> str:
        return str(run_document(Run.objects.get(pk=run.pk), None, None, timezone.now())["lamps"]["process"]["sentence"])

    run = make_run()
    assert said() == "No process yet."
    attempt = make_attempt(run, [make_node(cast.cluster)], phase=Phase.RUNNING)
    Run.objects.filter(pk=run.pk).update(status=Status.RUNNING)
    assert said() == "The node says that the ranks run."
    attempt.placements.update(phase=Phase.ENDED)
    assert said() == "The ranks have ended; what they wrote is on its way."
    attempt.ended_at = timezone.now()
    attempt.save()
    assert said() == "The ranks of the last attempt have ended."
    Run.objects.filter(pk=run.pk).update(status=Status.SUCCEEDED)
    assert said() == "The ranks have ended."
