from __future__ import annotations

import json
from typing import Any

import pytest

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobState
from runs.engines.refusals import SystemAway
from runs.engines.slurm.jobs import job_of, parse_accounts, parse_jobs, sentence_of


def job(**changes: Any) -> dict[str, Any]:
    return {
        "job_id": 17,
        "comment": "trainyard:mark:abc",
        "job_state": "PENDING",
        "state_reason": "Resources",
        "nodes": "",
        "start_time": 0,
        "end_time": 0,
        "exit_code": 0,
        **changes,
    }


def test_only_our_jobs_are_read() -> None:
    jobs = [job(), job(job_id=18, comment="trainyard:other:abc"), job(job_id=19, comment=None), "junk"]
    assert [one.id for one in parse_jobs(json.dumps({"jobs": jobs}), "mark")] == ["17"]


def test_an_answer_that_is_none_is_a_system_that_is_away() -> None:
    with pytest.raises(SystemAway, match="cannot be read"):
        parse_jobs("Segmentation fault", "mark")


def test_a_pending_job_says_why_in_words_and_in_slurms_word() -> None:
    found = job_of(job(), "abc")
    assert (found.state, found.reason) == (JobState.PENDING, "Resources")
    assert found.sentence == "it is next, and waits for machines to be free (Resources)."


@pytest.mark.parametrize("state", ["RUNNING", ["RUNNING"], "COMPLETING", ["CANCELLED", "COMPLETING"], "SUSPENDED"])
def test_what_may_have_processes_is_not_over(state: object) -> None:
    number = {"set": True, "infinite": False, "number": 1_700_000_000}
    found = job_of(job(job_state=state, nodes="c[1-2]", start_time=number, end_time={"set": False}), "abc")
    assert found.state == JobState.RUNNING
    assert (found.hosts, found.started_at, found.ends_at) == (("c[1-2]",), 1.7e9, None)


@pytest.mark.parametrize(
    ("state", "kind", "words"),
    [
        ("COMPLETED", None, "ended"),
        ("CANCELLED", EndKind.CANCELLED, "scancel"),
        (["TIMEOUT"], EndKind.TIME_LIMIT, "time limit"),
        ("NODE_FAIL", EndKind.NODE_FAILED, "failed"),
        ("PREEMPTED", EndKind.PREEMPTED, "more right"),
        ("OUT_OF_MEMORY", EndKind.OUT_OF_MEMORY, "memory"),
    ],
)
def test_how_a_job_ended(state: object, kind: EndKind | None, words: str) -> None:
    found = job_of(job(job_state=state), "abc")
    assert (found.state, found.end) == (JobState.OVER, kind)
    assert words in found.end_sentence


def test_the_exit_code_of_a_failed_job_is_named() -> None:
    found = job_of(job(job_state="FAILED", exit_code=127 << 8), "abc")
    assert found.exit_code == 127
    assert found.end_sentence == "Slurm job 17 ended with exit code 127."
    newer = {"status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 127}}
    assert job_of(job(job_state=["FAILED"], exit_code=newer), "abc").exit_code == 127


def test_accounts_say_who_cancelled_a_job() -> None:
    found = parse_accounts("CANCELLED by 1000|0:0|c[1-2]\n", "17")
    assert found is not None and found.end == EndKind.CANCELLED
    assert "by user 1000" in found.end_sentence
    assert parse_accounts("", "17") is None


def test_reasons_that_nobody_knows_are_quoted() -> None:
    assert sentence_of("SomethingNew") == "Slurm says SomethingNew."
    assert "QOS" in sentence_of("QOSMaxCpuPerUserLimit")
    assert sentence_of("ReqNodeNotAvail, UnavailableNodes:c1").endswith("(ReqNodeNotAvail).")
