"""Words of training jobs, as AWS documents them."""

from __future__ import annotations

import pytest

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobState
from runs.engines.sagemaker.documents import TrainingJob, Transition
from runs.engines.sagemaker.reasons import end_of, is_taken_back, job_of


def job(status: str, secondary: str = "", *, why: str = "", had: tuple[str, ...] = ()) -> TrainingJob:
    return TrainingJob(
        training_job_name="j",
        training_job_status=status,
        secondary_status=secondary or status,
        failure_reason=why,
        secondary_status_transitions=tuple(Transition(status=one) for one in had),
    )


@pytest.mark.parametrize(
    ("seen", "kind", "words"),
    [
        (job("Completed"), None, "ended"),
        (job("Stopped"), EndKind.CANCELLED, "AWS' own tools"),
        (job("Stopped", "MaxRuntimeExceeded"), EndKind.TIME_LIMIT, "time limit"),
        (job("Stopped", "MaxWaitTimeExceeded"), EndKind.PREEMPTED, "no spot machines"),
        (job("Stopped", had=("Training", "Interrupted", "Stopping")), EndKind.PREEMPTED, "took the spot machines"),
        (job("Failed", why="InternalServerError: We encountered an internal error."), EndKind.NODE_FAILED, "or AWS"),
        (job("Failed", why="AlgorithmError: , exit code: 137"), EndKind.OUT_OF_MEMORY, "larger instance type"),
        (job("Failed", why="AlgorithmError: no such module, exit code: 1"), EndKind.ENDED, "no such module"),
        (job("Failed", why="ClientError: Cannot pull the image."), EndKind.ENDED, "Cannot pull the image"),
    ],
)
def test_the_end_of_a_job_in_words(seen: TrainingJob, kind: EndKind | None, words: str) -> None:
    end = end_of(seen)
    assert end.kind == kind and words in end.sentence


def test_a_job_that_ends_holds_its_machines_and_one_taken_back_does_not_wait_for_others() -> None:
    assert job_of(job("Stopping", "Stopping"), "a").state == JobState.RUNNING
    assert job_of(job("InProgress", "Starting"), "a").state == JobState.PENDING
    assert is_taken_back(job("InProgress", "Interrupted"))
    assert is_taken_back(job("InProgress", "Starting", had=("Interrupted", "Restarting", "Starting")))
    assert not is_taken_back(job("Stopping", had=("Interrupted",)))
