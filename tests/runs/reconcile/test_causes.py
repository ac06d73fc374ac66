"""The reason of a failed run names what died, not what the others felt of it."""

from __future__ import annotations

from typing import Any

import pytest

from runs.reconcile.judge import PlacementState, Verdict
from runs.status import Phase, Status
from tests.runs.reconcile.test_survivors import part, settled
from tests.voices import rank

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


@pytest.mark.parametrize("who", ["supervisor", "fence"])
def test_a_supervisor_that_died_is_the_reason_though_a_survivor_failed_before_it_was_found(who: str) -> None:
    reason = {"code": f"{who}_killed", "sentence": f"The {who} on node-b was killed; its ranks ended with it."}
    verdict = failed(SURVIVOR, part(1, report={"at": 14.0, "reason": reason}))
    assert (verdict.code, verdict.sentence) == (f"{who}-killed", reason["sentence"])


def test_a_killed_rank_is_the_reason_though_its_end_was_noted_later() -> None:
    verdict = failed(SURVIVOR, part(1, rank(1, 12.3, exit_code=None, signal=9)))
    assert verdict.sentence == "Rank 1 on node-b was killed by SIGKILL (9)."


def test_a_node_that_is_out_of_contact_is_named_beside_what_the_survivor_felt() -> None:
    silent = part(1, rank(1), phase=Phase.RUNNING, silent_s=9.0, is_answering=False)
    verdict = failed(SURVIVOR, silent)
    assert verdict.code == "contact-lost"
    assert verdict.sentence == (
        "node-b is out of contact. Rank 0 on node-a lost its connection to another rank "
        "(Connection closed by peer [127.0.0.1]:42665)."
    )
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
