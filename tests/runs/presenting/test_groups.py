from __future__ import annotations

from typing import Any

import pytest

from runs.presenting import run_remarks
from runs.values.status import Status
from tests.voices import report_of

SCRIPT = {"task": {"script": "train.py"}}
AT = 1_000_000.0


def rank(
    number: int, group: str = "none", *, waits: float | None = None, is_over: bool = False, took_s: float = 600.0
) -> dict[str, Any]:
    since = None if waits is None else AT - waits
    ended = AT if is_over else None
    return {"rank": number, "group": group, "waiting_since": since, "started_at": AT - took_s, "ended_at": ended}


def said(status: Status, *ranks: dict[str, Any], spec: dict[str, Any] = SCRIPT) -> list[str]:
    return [
        one.sentence for one in run_remarks.remarks(status, spec, len(ranks), [report_of(at=AT, ranks=list(ranks))])
    ]


def test_ranks_that_met_are_not_remarked_on() -> None:
    assert said(Status.RUNNING, rank(0, "joined"), rank(1, "joined")) == []
    assert said(Status.SUCCEEDED, rank(0, "joined", is_over=True), rank(1, "joined", is_over=True)) == []


def test_ranks_of_which_none_joined_a_group_each_trained_by_itself() -> None:
    ranks = [rank(number, is_over=True) for number in range(2)]
    assert said(Status.SUCCEEDED, *ranks) == ["2 ranks ran and none joined a process group: each trained by itself."]


def test_ranks_that_ended_within_seconds_without_a_group_may_have_given_up() -> None:
    ranks = [rank(number, is_over=True, took_s=2.4) for number in range(2)]
    sentence = "2 ranks ended within 2 s and none joined a process group: did the script give up? Read its log."
    assert said(Status.SUCCEEDED, *ranks) == [sentence]


def test_cold_ranks_that_never_opened_their_port_are_remarked_on() -> None:
    ranks = [rank(number, "unknown", is_over=True, took_s=2.4) for number in range(2)]
    own = {"task": {"script": "train.py", "python": "/opt/x/bin/python"}}
    ranks[0]["has_listened"] = False
    assert "none opened the port of a process group" in said(Status.SUCCEEDED, *ranks, spec=own)[0]
    ranks[0]["has_listened"] = True
    assert said(Status.SUCCEEDED, *ranks, spec=own) == []


@pytest.mark.parametrize(
    ("status", "spec", "num_ranks"),
    [(Status.FAILED, SCRIPT, 2), (Status.SUCCEEDED, {"task": {"recipe": "tabular"}}, 2), (Status.SUCCEEDED, SCRIPT, 1)],
    ids=["failed", "recipe", "one rank"],
)
def test_that_they_were_apart_is_said_of_scripts_of_several_ranks_that_succeeded(
    status: Status, spec: dict[str, Any], num_ranks: int
) -> None:
    assert said(status, *[rank(number, is_over=True) for number in range(num_ranks)], spec=spec) == []


def test_of_an_interpreter_of_its_own_it_is_not_known() -> None:
    ranks = [rank(number, "unknown", is_over=True) for number in range(2)]
    own = {"task": {"script": "train.py", "python": "/opt/x/bin/python"}}
    assert "is not known" in said(Status.SUCCEEDED, *ranks, spec=own)[0]
    assert said(Status.SUCCEEDED, *ranks) == []


@pytest.mark.parametrize(
    ("ranks", "sentence"),
    [
        (
            [rank(0, "waiting", waits=75), rank(1, is_over=True)],
            "Rank 0 has waited 75 s in init_process_group() for rank 1, which has ended.",
        ),
        (
            [rank(0, "waiting", waits=61), rank(1, "waiting", waits=3), rank(2)],
            "Ranks 0 and 1 have waited 61 s in init_process_group() for rank 2, which has not called "
            "init_process_group().",
        ),
        (
            [rank(0, "waiting", waits=90), rank(1, "waiting", waits=90)],
            "Ranks 0 and 1 have waited 90 s in init_process_group() without meeting: do they all reach MASTER_ADDR and "
            "MASTER_PORT, and ask for the same world size?",
        ),
    ],
    ids=["ended", "never called", "all wait"],
)
def test_who_waits_for_a_minute_is_named_with_whom_it_waits_for(ranks: list[dict[str, Any]], sentence: str) -> None:
    assert said(Status.RUNNING, *ranks) == [sentence]


def test_a_short_wait_is_no_remark() -> None:
    assert said(Status.RUNNING, rank(0, "waiting", waits=59), rank(1)) == []


def test_of_many_the_first_are_named() -> None:
    [sentence] = said(Status.RUNNING, rank(0, "waiting", waits=75), *[rank(number) for number in range(1, 9)])
    assert "rank 4, which has not called init_process_group() and 4 more." in sentence


def test_a_report_of_an_older_node_is_taken_as_not_known() -> None:
    assert said(Status.RUNNING, {"rank": 0, "ended_at": None}, {"rank": 1, "ended_at": None}) == []
    assert run_remarks.remarks(Status.RUNNING, SCRIPT, 2, [report_of()]) == []
