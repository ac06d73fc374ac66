"""The reason of a failed run names what died, not what the others felt of it."""

from __future__ import annotations

from typing import Any

import pytest

from runs.causes import PlacementState
from runs.life.reconcile.judge import Verdict
from runs.values.status import Phase, Status
from tests.runs.life.reconcile.test_survivors import part, settled
from tests.voices import rank
from trainyard.contract.causes import CauseClass

GLOO = {
    "type": "RuntimeError",
    "message": "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:42665. This is typically caused by a remote worker crashing. Check the logs of the remote worker "
    "before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}",
    "traceback": "Traceback (most recent call last):\n...\nRuntimeError: GLHF!\n",
}
FELT = rank(0, 12.0, exit_code=1, error=GLOO)
SURVIVOR = part(0, FELT)
FAILS = {"exit_code": 1, "error": {"type": "ValueError", "message": "no data"}}


def failed(*parts: PlacementState) -> Verdict:
    verdict = settled(*parts, outlives_workers=False)
    assert verdict.status == Status.FAILED
    assert "GLHF" not in verdict.sentence and "\N{BEACH WITH UMBRELLA}" not in verdict.sentence
    return verdict


def cause_class(verdict: Verdict) -> CauseClass:
    assert verdict.cause is not None
    return verdict.cause.cause_class


def consequences(verdict: Verdict) -> list[str]:
    assert verdict.cause is not None
    return [one.sentence for one in verdict.cause.consequences]


@pytest.mark.parametrize("who", ["supervisor", "fence"])
def test_a_supervisor_that_died_is_the_reason_though_a_survivor_failed_before_it_was_found(who: str) -> None:
    reason = {"code": f"{who}_killed", "sentence": f"The {who} on node-b was killed; its ranks ended with it."}
    verdict = failed(SURVIVOR, part(1, report={"at": 14.0, "reason": reason}))
    assert (verdict.code, verdict.sentence) == (f"{who}-killed", reason["sentence"])
    assert verdict.cause is not None
    assert (verdict.cause.cause_class, verdict.cause.node) == (CauseClass.PROCESS_LOST, "node-b")
    assert consequences(verdict) == [
        "Rank 0 on node-a lost its connection to another rank (Connection closed by peer [127.0.0.1]:42665)."
    ]


def test_a_cut_between_two_nodes_that_live_is_the_network() -> None:
    """The other node stopped its ranks since the server asked it to: that is no reason."""
    stopped = {"code": "stopped", "sentence": "The run was asked to stop.", "evidence": {}}
    other = part(1, rank(1, 13.0, exit_code=None, signal=15), report={"at": 14.0, "reason": stopped})
    verdict = failed(SURVIVOR, other)
    assert (verdict.code, cause_class(verdict)) == ("rank-failed", CauseClass.NETWORK)
    assert verdict.sentence.startswith("Rank 0 on node-a lost its connection to another rank (")


def test_a_killed_rank_is_the_reason_though_its_end_was_noted_later() -> None:
    verdict = failed(SURVIVOR, part(1, rank(1, 12.3, exit_code=None, signal=9)))
    assert verdict.sentence == "Rank 1 on node-b was killed by SIGKILL (9)."


def test_a_node_that_is_out_of_contact_is_named_before_what_the_survivor_felt() -> None:
    silent = part(1, rank(1), phase=Phase.RUNNING, silent_s=9.0, is_answering=False)
    verdict = failed(SURVIVOR, silent)
    assert verdict.code == "contact-lost"
    assert verdict.sentence == "Node node-b is out of contact."
    assert cause_class(verdict) == CauseClass.NODE_LOST
    assert consequences(verdict) == [
        "Rank 0 on node-a lost its connection to another rank (Connection closed by peer [127.0.0.1]:42665)."
    ]
    assert verdict.evidence["traceback"] == GLOO["traceback"]


def test_ranks_that_their_node_killed_after_another_failed_are_no_reason() -> None:
    killed: dict[str, Any] = {"exit_code": None, "signal": 9, "was_ended": True}
    both = part(0, FELT, rank(1, 12.6, **killed), num_ranks=2)
    reason = {"code": "supervisor_killed", "sentence": "The supervisor on node-b was killed; its ranks ended with it."}
    assert failed(both, part(2, report={"at": 14.0, "reason": reason})).code == "supervisor-killed"


def test_an_error_of_a_ranks_own_before_a_later_loss_is_the_reason() -> None:
    reason = {"code": "supervisor_killed", "sentence": "The supervisor on node-b was killed; its ranks ended with it."}
    verdict = failed(part(0, rank(0, 12.0, **FAILS)), part(1, report={"at": 14.0, "reason": reason}))
    assert verdict.sentence == "Rank 0 on node-a failed with ValueError: no data"


def test_where_nothing_else_is_known_the_sentence_says_what_was_felt_without_advice() -> None:
    verdict = failed(SURVIVOR, part(1, rank(1, 13.0)))
    assert verdict.sentence == (
        "Rank 0 on node-a lost its connection to another rank (Connection closed by peer [127.0.0.1]:42665)."
    )
