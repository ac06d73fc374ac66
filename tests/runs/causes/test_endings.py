"""Each real ending gets its class, and a sentence that names the rank and its node."""

from __future__ import annotations

from typing import Any

import pytest

from runs.causes import PlacementState, cause_of, cause_of_stop, failures_of
from runs.values.status import Phase
from tests.runs.causes.endings_table import GLOO, HANGING, RANKS, WATCHDOG, Ending, error, killed
from tests.voices import rank, report_of
from trainyard.contract.causes import Cause, CauseClass
from trainyard.failures.ranks import STOPPED_WITH_ANOTHER

RESET = error("RuntimeError", f"{GLOO}pair.cc:537] Read error [127.0.0.1]:9639: Connection reset by peer.{HANGING}")
LOST_ITS_PEER = "lost its connection to another rank"


def part(number: int, *ranks: dict[str, Any], reason: dict[str, Any] | None = None, **changes: Any) -> PlacementState:
    """The part of one of two nodes, a and b, with one rank each."""
    shown: dict[str, Any] = {"phase": Phase.ENDED, "silent_s": 0.0, "is_answering": True, "is_listed": True, **changes}
    report = report_of(at=30.0, ranks=list(ranks), reason=reason)
    return PlacementState(node="ab"[number], report=report, first_rank=number, **shown)


def judged(*parts: PlacementState) -> Cause:
    cause = cause_of(failures_of(parts), parts)[1]
    for sentence in (cause.sentence, *(one.sentence for one in cause.consequences)):
        assert "GLHF" not in sentence and "typically caused" not in sentence and "\n" not in sentence
    return cause


@pytest.mark.parametrize("ending", RANKS, ids=[ending.name for ending in RANKS])
def test_the_end_of_a_rank_is_the_cause_though_another_felt_it_before_its_node_noticed(ending: Ending) -> None:
    evidence = {"node": "b", "rank": 1, "stderr": [*ending.stderr], "disk_full": ending.is_disk_full}
    is_felt = LOST_ITS_PEER in ending.words  # of two ranks that lost each other the first is named
    ended = part(1, rank(1, 8.0 if is_felt else 10.0, **ending.rank), reason={"evidence": evidence})
    cause = judged(part(0, rank(0, 9.0, **RESET)), ended)
    assert (cause.cause_class, cause.node, cause.rank) == (ending.cause_class, "b", 1), cause.sentence
    assert cause.sentence.startswith("Rank 1 on b") and ending.words in cause.sentence
    assert [(one.node, one.rank) for one in cause.consequences] == [("a", 0)]


def test_a_rank_without_a_last_word_failed_with_the_disk_that_took_none() -> None:
    line = "checkpoint at step 350 could not be kept, training goes on: OSError: [Errno 28] No space left on device"
    match = {"label": "disk-full", "is_builtin": True, "rank": 1, "stream": "stdout", "line": line}
    report = report_of(at=30.0, ranks=[rank(1, 10.0, exit_code=1)], matches=[match])
    shown: dict[str, Any] = {"phase": Phase.ENDED, "silent_s": 0.0, "is_answering": True, "is_listed": True}
    silent = PlacementState(node="b", report=report, first_rank=1, **shown)
    cause = judged(part(0, rank(0, 9.0, **RESET)), silent)
    assert (cause.cause_class, cause.node) == (CauseClass.DISK_FULL, "b"), cause.sentence
    assert cause.sentence.startswith("Rank 1 on b found the disk full (")


@pytest.mark.parametrize(
    ("code", "cause_class"),
    [
        ("supervisor_killed", CauseClass.PROCESS_LOST),
        ("fence_killed", CauseClass.PROCESS_LOST),
        ("interrupted", CauseClass.INTERRUPTED),
        ("lease_expired", CauseClass.NODE_LOST),
        ("node_lost", CauseClass.NODE_LOST),
        ("folder_deleted", CauseClass.STORAGE),
        ("hang", CauseClass.HANG),
        ("network_stall", CauseClass.NETWORK),
        ("of_a_newer_node", CauseClass.UNKNOWN),
    ],
)
def test_what_a_node_reports_of_all_its_ranks(code: str, cause_class: CauseClass) -> None:
    reason = {"code": code, "sentence": "It happened on b."}
    cause = judged(part(0, rank(0, 9.0, **RESET)), part(1, rank(1, 10.0, **killed(9)), reason=reason))
    assert (cause.cause_class, cause.sentence, cause.node) == (cause_class, "It happened on b.", "b")
    assert [one.node for one in cause.consequences] == ["a"]


def test_a_rank_that_stopped_with_one_that_got_sigterm_is_not_blamed() -> None:
    followed = {"evidence": {"node": "a", "rank": 0, "stderr": [STOPPED_WITH_ANOTHER]}}
    cause = judged(part(0, rank(0, 9.0, **killed(15)), reason=followed), part(1, rank(1, 10.0, **killed(15))))
    assert (cause.cause_class, cause.node, cause.rank) == (CauseClass.KILLED, "b", 1)
    assert cause.sentence == "Rank 1 on b was killed by SIGTERM (15)."
    (felt,) = cause.consequences
    assert felt.sentence == "Rank 0 on a stopped with another rank that got SIGTERM (15)."


def test_a_node_that_refuses() -> None:
    cause = judged(part(1, phase=Phase.REFUSED, reason={"code": "no_torch", "sentence": "Node b has no torch."}))
    assert (cause.cause_class, cause.sentence) == (CauseClass.REFUSED, "Node b has no torch.")


def test_processes_that_are_missing_on_a_node_that_answers() -> None:
    cause = judged(part(0, rank(0, 9.0, **RESET)), part(1, phase=Phase.RUNNING, is_listed=False, silent_s=4.0))
    assert (cause.cause_class, cause.node) == (CauseClass.PROCESS_LOST, "b")


def test_a_rank_whose_end_nobody_reported() -> None:
    assert judged(part(1)).cause_class == CauseClass.PROCESS_LOST


@pytest.mark.parametrize("felt", [RESET, error("DistBackendError", WATCHDOG)])
def test_a_node_out_of_contact_is_the_cause_of_what_the_others_felt(felt: dict[str, Any]) -> None:
    cause = judged(part(0, rank(0, 9.0, **felt)), part(1, phase=Phase.RUNNING, is_answering=False, silent_s=9.0))
    assert (cause.cause_class, cause.sentence) == (CauseClass.NODE_LOST, "Node b is out of contact.")
    assert cause.consequences[0].rank == 0


def test_an_error_of_a_ranks_own_is_the_cause_though_a_node_is_out_of_contact() -> None:
    failed = rank(0, 9.0, **error("ValueError", "no"))
    cause = judged(part(0, failed), part(1, phase=Phase.RUNNING, is_answering=False, silent_s=9.0))
    assert cause.cause_class == CauseClass.USER_ERROR


def test_a_timeout_comes_before_the_connections_that_it_broke() -> None:
    late = rank(1, 10.0, **error("RuntimeError", f"{GLOO}unbound_buffer.cc:78] Timed out waiting 3000ms for recv"))
    cause = judged(part(0, rank(0, 9.0, **RESET)), part(1, late))
    assert (cause.cause_class, cause.rank) == (CauseClass.COLLECTIVE_TIMEOUT, 1)


def test_a_rank_that_left_the_others_with_exit_code_0() -> None:
    cause = judged(part(0, rank(0, 9.0, **RESET)), part(1, rank(1, 8.0)))
    assert cause.cause_class == CauseClass.USER_ERROR
    assert cause.sentence == "Rank 1 on b ended with exit code 0 while others still needed it."


def test_ranks_that_their_node_ended_are_consequences() -> None:
    cause = judged(part(0, rank(0, 10.0, **killed(11)), rank(1, 10.4, **killed(9, was_ended=True))))
    assert (cause.rank, cause.cause_class) == (0, CauseClass.KILLED)
    assert [one.sentence for one in cause.consequences] == ["Rank 1 on a was ended by its node."]


def test_one_sentence_that_all_nodes_report_is_listed_once() -> None:
    hang = {"code": "hang", "sentence": "Rank 1 on b hangs.", "at": 20.0, "evidence": {"node": "b", "rank": 1}}
    cause = judged(part(0, reason=hang), part(1, reason=hang))
    assert (cause.cause_class, cause.node, cause.rank) == (CauseClass.HANG, "b", 1)
    assert cause.consequences == []


@pytest.mark.parametrize(
    ("code", "cause_class"),
    [
        ("stopped", CauseClass.STOPPED),
        ("paused", CauseClass.STOPPED),
        ("given-up", CauseClass.STOPPED),
        ("time-limit", CauseClass.TIME_LIMIT),
    ],
)
def test_what_a_person_or_the_time_limit_ended(code: str, cause_class: CauseClass) -> None:
    assert cause_of_stop(code, "It was.", {}).cause_class == cause_class


def test_a_timeout_of_gloo_names_the_one_rank_that_had_not_come() -> None:
    timeout = error("RuntimeError", f"{GLOO}unbound_buffer.cc:81] Timed out waiting 1800000ms for recv to complete")
    asked = {"code": "stopped", "sentence": "The run was asked to stop."}
    cause = judged(part(0, rank(0, 9.0, **timeout)), part(1, rank(1, 12.0, **killed(15)), reason=asked))
    assert cause.cause_class == CauseClass.COLLECTIVE_TIMEOUT
    assert cause.sentence.endswith(" It was rank 1 on b that had not come.")


def test_a_signal_that_interrupts_a_rank_is_no_error_of_its_code() -> None:
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\n    time.sleep(9)\nKeyboardInterrupt\n'
    interrupted = {**killed(2), "error": {"type": "KeyboardInterrupt", "message": "", "traceback": trace}}
    cause = judged(part(0, rank(0, 9.0, **interrupted)))
    assert (cause.cause_class, cause.sentence) == (CauseClass.KILLED, "Rank 0 on a was killed by SIGINT (2).")
