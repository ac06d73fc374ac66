"""What is wrong with one node alone: the run goes on without it, and waits no longer than the trouble lasts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cast import make_node
from tests.runs.life.reconcile.conftest import Yard
from tests.runs.life.reconcile.test_recovering import restarts, sentences
from tests.voices import Voice, rank

SMALL = "the cache /cache would take 3.0 GiB with what this run needs, and its limit is 1.0 GiB"
FULL = {"type": "OSError", "message": "[Errno 28] No space left on device", "traceback": "OSError: [Errno 28] No space"}


def fail_data(yard: Yard) -> str:
    """Node-b cannot use the data, and the rank on node-a, which is found dead first, stops with it."""
    others = {"type": "OthersDataProblem", "message": f"rank 1: {SMALL}"}
    yard.say("ended", 0, ranks=[rank(0, 10.0, exit_code=1, error=others)])
    yard.say("ended", 1, ranks=[rank(1, 10.2, exit_code=1, error={"type": "NodeDataProblem", "message": SMALL})])
    return yard.tick()


def fill_disk(yard: Yard, number: int = 1) -> str:
    yard.say("ended", 1 - number, ranks=[rank(1 - number, 11.0)])
    yard.say("ended", number, ranks=[rank(number, 10.0, exit_code=1, error=FULL)])
    return yard.tick()


def look(yard: Yard, free_bytes: int) -> None:
    """Let node-b say how much room its disk has."""
    folder = {"path": "/home/ty", "free_bytes": free_bytes, "total_bytes": 100 << 30}
    yard.voices[1].self_check = {"at": yard.now.timestamp(), "home": folder, "checkpoints": folder}


def test_the_node_that_cannot_use_the_data_is_blamed_and_another_is_tried(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    yard.tick()
    assert fail_data(yard) == "SCHEDULED"
    cause = yard.run.attempts.get(number=1).known_cause
    assert cause is not None
    assert (cause.cause_class, cause.rank, cause.node) == ("node-unfit", 1, "node-b")
    assert sentences(yard.run, "restarting")[0].startswith(f"Rank 1 on node-b cannot use its data: {SMALL}. Restart 1")
    assert [one.node.name for one in yard.placements] == ["node-a", "node-c"]


def test_where_no_other_node_could_take_it_the_run_ends_at_once(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    assert fail_data(yard) == "FAILED"
    assert yard.run.reason_sentence == f"Rank 1 on node-b cannot use its data: {SMALL}. No other node could take it."


def test_a_restart_that_has_no_node_does_not_follow_at_once_and_comes_when_the_disk_has_room(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    look(yard, 0)
    assert fill_disk(yard) == "RECOVERING"
    (words,) = sentences(yard.run, "restarting")
    assert "Restart 1 of 3 follows as soon as it gets other nodes, or this one again, from the start." in words
    assert "node-b is left out until its disk has room, at the latest until" in words and "at once" not in words
    for _ in range(20):
        assert yard.tick() == "RECOVERING"
    look(yard, 20 << 30)
    yard.tick()
    assert yard.tick() == "SCHEDULED"
    assert [one.node.name for one in yard.placements] == ["node-a", "node-b"]


def test_a_node_with_room_again_comes_behind_others(yard: Yard) -> None:
    restarts(yard)
    yard.start()
    look(yard, 20 << 30)
    assert fill_disk(yard) == "RECOVERING"
    yard.later(20)
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    yard.tick()
    assert yard.status == "SCHEDULED"
    assert [one.node.name for one in yard.placements] == ["node-a", "node-c"]


@pytest.mark.parametrize("code", ["python_missing", "data_outside"])
def test_a_node_that_lacks_a_program_or_the_data_is_left_out(yard: Yard, code: str) -> None:
    restarts(yard)
    assert yard.tick() == "SCHEDULED"
    yard.voices.append(Voice(make_node(yard.cast.cluster, "node-c")))
    yard.tick()
    reason: dict[str, Any] = {"code": code, "sentence": "There is no file /opt/python on node-b."}
    yard.say("refused", 1, reason=reason)
    for _ in range(8):
        yard.say("ended", 0, reason={"code": "stopped", "sentence": "Stopped."})
        if yard.tick() == "SCHEDULED" and yard.attempt.number == 2:
            break
    assert [one.node.name for one in yard.placements] == ["node-a", "node-c"]
