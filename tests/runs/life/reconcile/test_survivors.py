"""A run whose weights are on rank 0 alone outlives its other ranks, and says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.causes import PlacementState
from runs.life.reconcile.judge import Case, Verdict, judge
from runs.models import Run
from runs.values.status import Phase, Status, Wanted
from tests.cast import Cast, spec
from tests.runs.life.reconcile.conftest import Yard
from tests.servers import Valkey
from tests.voices import rank, report_of

KILLED = {"exit_code": None, "signal": 9, "has_joined": True}
DEAD = rank(1, 12.0, **KILLED)


def part(first_rank: int, *ranks: dict[str, Any], phase: Phase = Phase.ENDED, **changes: Any) -> PlacementState:
    report = report_of(**{"at": 20.0, "ranks": list(ranks), **changes.pop("report", {})})
    told: dict[str, Any] = {"silent_s": 0.0, "is_answering": True, "is_listed": True, "num_ranks": 1, **changes}
    return PlacementState(f"node-{'ab'[first_rank > 0]}", phase, report, first_rank=first_rank, **told)


def case(*parts: PlacementState, **changes: Any) -> Case:
    told: dict[str, Any] = {
        "status": Status.RUNNING,
        "wanted": Wanted.RUN,
        "has_go": True,
        "lease_s": 600.0,
        "out_of_contact_s": None,
        "settling_s": None,
        "is_complete": lambda: True,
        "outlives_workers": True,
        **changes,
    }
    return Case(parts=parts, **told)


def settled(*parts: PlacementState, **changes: Any) -> Verdict:
    return judge(case(*parts, settling_s=1.0, **changes))


RUNNING = part(0, rank(0), phase=Phase.RUNNING)
FINISHED = part(0, rank(0, 30.0))


def test_the_run_goes_on_without_a_worker() -> None:
    assert judge(case(RUNNING, part(1, DEAD))) == Verdict()


def test_it_succeeds_with_a_sentence_that_names_the_dead_rank_and_its_signal() -> None:
    verdict = judge(case(FINISHED, part(1, DEAD)))
    assert (verdict.status, verdict.code, verdict.ends) == (Status.SUCCEEDED, "finished-without-ranks", True)
    assert verdict.sentence == (
        "Rank 0 finished, and with it the run, without all of its ranks. Rank 1 on node-b was killed by SIGKILL (9)."
    )


def test_a_worker_on_rank_0s_own_node_may_die_too() -> None:
    both = part(0, rank(0, 30.0), DEAD, num_ranks=2, report={"reason": {"code": "rank_killed"}})
    assert judge(case(both)).code == "finished-without-ranks"


def test_many_dead_ranks_are_all_in_the_evidence() -> None:
    dead = [rank(number, 12.0 + number, **KILLED) for number in range(1, 6)]
    verdict = judge(case(FINISHED, part(1, *dead, num_ranks=5)))
    assert len(verdict.evidence["lost"]) == 5
    assert verdict.sentence.count("SIGKILL") == 3


def test_with_all_ranks_clean_it_is_a_plain_success() -> None:
    assert judge(case(FINISHED, part(1, rank(1, 29.0)))).code == "finished"


def test_it_waits_for_what_the_ranks_wrote() -> None:
    assert judge(case(FINISHED, part(1, DEAD), is_complete=lambda: False)).settles


def test_the_death_of_rank_0_fails_it_whoever_died_before() -> None:
    verdict = settled(part(0, rank(0, 30.0, exit_code=None, signal=9)), part(1, DEAD))
    assert (verdict.status, verdict.code) == (Status.FAILED, "rank-killed")
    assert verdict.sentence == "Rank 0 on node-a was killed by SIGKILL (9)."


def test_a_rank_that_died_before_all_were_together_fails_it() -> None:
    verdict = settled(part(0, rank(0), phase=Phase.STOPPING, silent_s=9.0), part(1, {**DEAD, "has_joined": False}))
    assert (verdict.status, verdict.code) == (Status.FAILED, "rank-killed")


def test_a_node_that_refused_fails_it() -> None:
    refusal = {"reason": {"code": "no_torch", "sentence": "Node node-b has no torch."}}
    verdict = settled(FINISHED, part(1, phase=Phase.REFUSED, report=refusal))
    assert (verdict.status, verdict.sentence) == (Status.FAILED, "Node node-b has no torch.")


@pytest.mark.parametrize("code", ["supervisor_killed", "lease_expired", "stopped"])
def test_a_whole_node_of_workers_may_be_lost(code: str) -> None:
    lost = part(1, report={"reason": {"code": code}})
    assert judge(case(RUNNING, lost)) == Verdict()
    assert judge(case(FINISHED, lost)).code == "finished-without-ranks"
    assert settled(part(0, report={"reason": {"code": code}}), part(1, DEAD)).status == Status.FAILED


def test_a_silent_node_of_workers_holds_up_nothing_once_rank_0_is_done() -> None:
    silent = part(1, rank(1), phase=Phase.RUNNING, silent_s=9.0, is_answering=False)
    assert judge(case(RUNNING, silent)).status == Status.RECOVERING
    verdict = judge(case(FINISHED, silent, status=Status.RECOVERING))
    assert verdict.code == "finished-without-ranks"
    assert verdict.sentence.endswith("The ranks on node-b were out of contact at the end.")
    assert judge(case(part(0, rank(0), phase=Phase.RUNNING, silent_s=9.0), part(1, DEAD))).is_out_of_contact


def test_any_other_run_fails_with_the_first_rank_that_dies() -> None:
    assert judge(case(RUNNING, part(1, DEAD), outlives_workers=False)).settles
    verdict = settled(FINISHED, part(1, DEAD), outlives_workers=False)
    assert (verdict.status, verdict.code) == (Status.FAILED, "rank-killed")
    silent = part(1, rank(1), phase=Phase.RUNNING, silent_s=9.0, is_answering=False)
    assert judge(case(FINISHED, silent, outlives_workers=False)).status == Status.RECOVERING


@pytest.mark.parametrize(("kind", "status"), [("parameter-server", "SUCCEEDED"), ("local-sgd", "FAILED")])
def test_the_spec_says_which_runs_do(
    transactional_db: None, valkey: Valkey, cast: Cast, make_run: Callable[..., Run], kind: str, status: str
) -> None:
    gang = {"nodes": 2, "processes_per_node": 1, "accelerator": "auto"}
    yard = Yard(cast, make_run(spec={**spec(resources=gang), "parallel": {"synchronization": {"kind": kind}}}))
    yard.start()
    yard.say("ended", 1, ranks=[DEAD])
    yard.tick()
    yard.say("ended", 0, ranks=[rank(0, 30.0)])
    assert yard.tick() == status
