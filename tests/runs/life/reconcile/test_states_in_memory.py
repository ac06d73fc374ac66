"""Which restarts may go on from states in memory, what the history says of them, and when they are freed."""

from __future__ import annotations

from typing import Any

import pytest

from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Event, Placement, Run
from runs.presenting.checkpoints import memory_sentence
from runs.presenting.runs import restarts_document
from runs.records.metrics.models import Series
from runs.values.status import Phase
from tests.checkpoints import saved, tell
from tests.runs.life.reconcile.conftest import Yard
from tests.runs.life.reconcile.test_restoring import sentences
from tests.spools import Spool
from tests.voices import rank


def go_of(yard: Yard) -> dict[str, Any]:
    """Bring the newest attempt to its go, and return that."""
    yard.tick()
    yard.say("ready")
    assert yard.tick() == "STARTING"
    return yard.attempt.go  # type: ignore[return-value]


def be_killed(yard: Yard) -> None:
    """Rank 0 is killed, and the policy has the run started again."""
    yard.say("ended", 0, ranks=[rank(0, 10.0, exit_code=None, signal=9)])
    yard.say("ended", 1, ranks=[rank(1, 11.0)])
    assert yard.tick() in ("RECOVERING", "SCHEDULED")


def report_in_memory(run: Run, step: int) -> None:
    spool = Spool()
    spool.begin(rank=0)
    data = {"step": step, "fence": run.fence, "bytes": 2_000_000, "every_steps": 20, "nodes": ["node-a", "node-b"]}
    spool.add("facts", name="in-memory", data=data, at=1.7e9)
    commit(run.pk, fence=run.fence, source=Source("node1", "node-a"), batch=incoming(spool.bytes))


@pytest.fixture
def restarted(yard: Yard) -> Yard:
    Run.objects.update(spec={**yard.run.spec, "restarts": {"max": 3}})
    yard.run.refresh_from_db()
    yard.start()
    report_in_memory(yard.run, 140)
    tell(yard.run, saved(100))
    be_killed(yard)
    return yard


def test_a_first_start_goes_on_from_nothing_in_memory(yard: Yard) -> None:
    assert go_of(yard)["memory"]["restore_above"] is None


def test_a_restart_may_go_on_from_memory_and_says_which_state(restarted: Yard) -> None:
    assert "from step 140 in memory" in sentences(restarted.run, "restarting")[0]
    memory = go_of(restarted)["memory"]
    assert (memory["restore_above"], memory["restore_until_step"]) == (0, None)
    assert "from step 140 or newer in memory, else from storage" in sentences(restarted.run, "starting")[-1]
    restarted.say("running")
    tell(restarted.run, {"state": "restored", "step": 160, "fence": 1, "memory": "node-b"})
    restarted.tick()
    assert sentences(restarted.run, "restored")[0].startswith(
        "Continues from the memory of node-b, step 160 of attempt 1"
    )
    document = restarts_document(restarted.run, restarted.now)
    assert (document["source"], document["from_step"]) == ("the memory of node-b", 160)
    assert Event.objects.get(code="restored").data["memory"] == "node-b"


def test_of_a_lost_node_no_state_is_taken_whose_records_never_came(restarted: Yard) -> None:
    Placement.objects.filter(attempt__run=restarted.run, attempt__number=1, node_rank=1).update(phase=Phase.RUNNING)
    for name, labels, step in (
        ("train/loss", {}, 300),
        ("rank/step_time_s", {"rank": "1"}, 120),
        ("rank/data_time_s", {"rank": "1"}, 110),
        ("system/cpu_percent", {"node": "node-b"}, 9),
    ):
        Series.objects.create(run_id=restarted.run.pk, name=name, labels=labels, labels_key=str(labels), last_step=step)
    assert go_of(restarted)["memory"]["restore_until_step"] == 120


def test_a_state_in_memory_has_no_row_among_the_checkpoints(restarted: Yard) -> None:
    go_of(restarted)
    restarted.say("running")
    tell(restarted.run, {"state": "invalid", "step": 100, "fence": 1, "memory": "node-b", "why": "flipped"})
    tell(restarted.run, {"state": "restored", "step": 100, "fence": 1})
    restarted.tick()
    assert sentences(restarted.run, "memory-invalid", "restored")[0] == (
        "The state of step 100 in the memory of node-b is not used: flipped."
    )
    assert restarts_document(restarted.run, restarted.now)["source"] == "storage"
    from runs.records.metrics.models import Checkpoint

    assert Checkpoint.objects.sound().filter(step=100).exists()


def test_a_restart_that_found_nothing_starts_anew(restarted: Yard) -> None:
    go_of(restarted)
    restarted.say("running")
    tell(restarted.run, {"state": "anew", "step": 0, "why": "none of the checkpoints that were offered can be used"})
    restarted.tick()
    document = restarts_document(restarted.run, restarted.now)
    assert (document["source"], document["from_step"]) == ("", None)


def test_a_restart_by_a_person_reads_from_storage(restarted: Yard) -> None:
    actions.stop_run(actor=restarted.cast.mate, run=restarted.run)
    restarted.tick()
    restarted.run.refresh_from_db()
    if not restarted.run.is_final:
        restarted.say("ended", ranks=[])
        restarted.tick()
    restarted.run.refresh_from_db()
    actions.restart_run(actor=restarted.cast.mate, run=restarted.run)
    assert go_of(restarted)["memory"]["restore_above"] is None


def test_another_number_of_ranks_reads_from_storage(restarted: Yard) -> None:
    restarted.run.attempts.filter(number=1).update(world_size=7)
    assert go_of(restarted)["memory"]["restore_above"] is None


def test_states_are_freed_once_the_run_has_ended(yard: Yard) -> None:
    yard.start()
    yard.voices[0].memory = {yard.run.pk: 1000, "gonerun": 5}
    yard.tick()
    assert yard.voices[0].heard()["free_memory"] == ["gonerun"]
    yard.say("ended", ranks=[rank(0, 10.0)])
    yard.tick()
    yard.run.refresh_from_db()
    if yard.run.is_final:
        yard.tick()
        assert yard.voices[0].heard()["free_memory"] == sorted(["gonerun", yard.run.pk])


def test_the_page_says_what_is_in_memory(yard: Yard) -> None:
    Run.objects.update(spec={**yard.run.spec, "checkpoint": {"every_steps": 100, "replicate_every_steps": "auto"}})
    yard.run.refresh_from_db()
    yard.start()
    assert memory_sentence(yard.run) == ""
    report_in_memory(yard.run, 140)
    assert memory_sentence(yard.run) == (
        "In memory on node-a and node-b: step 140 (2.0 MB), one every 20 steps. "
        "A restart takes it before one from storage."
    )
