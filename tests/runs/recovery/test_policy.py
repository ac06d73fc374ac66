"""What follows from a failed attempt, as a table."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from runs.recovery.failing import signature_of
from runs.recovery.policy import LEFT_OUT_S, Restart, Stop, decide
from runs.values.columns import AttemptFailure
from trainyard.contract.causes import CauseClass
from trainyard.spec.sections.restarts import DEFAULT_ACTIONS, NEVER_RESTARTED, ClassName, RestartRules

NOW = 1_000_000.0
DEFAULTS = RestartRules.of({"restarts": {"max": 3}})


def failed(cause: str = "killed", ago_s: float = 0.0, **fields: Any) -> AttemptFailure:
    return AttemptFailure(fence=1, cause=CauseClass(cause), at=NOW - ago_s, **fields)


def rules(**section: Any) -> RestartRules:
    return RestartRules.of({"restarts": {"max": 3, **section}})


def test_every_class_has_a_name_in_the_spec_and_an_action() -> None:
    assert set(get_args(ClassName)) == set(CauseClass) == DEFAULT_ACTIONS.keys()
    assert all(DEFAULT_ACTIONS[one] == "stop" for one in NEVER_RESTARTED)


@pytest.mark.parametrize("cause", list(CauseClass))
def test_what_is_not_the_users_code_is_restarted_at_once(cause: CauseClass) -> None:
    found = decide(DEFAULTS, [failed(cause)], NOW)
    if DEFAULT_ACTIONS[cause] == "stop":
        assert found == Stop()
    else:
        assert isinstance(found, Restart) and (found.number, found.pause_s) == (1, 0.0)


def test_a_run_without_restarts_stays_ended() -> None:
    assert decide(rules(max=0), [failed()], NOW) == decide(RestartRules.of({}), [failed()], NOW) == Stop()


def test_the_pause_grows_and_has_a_limit() -> None:
    many = rules(max=100, window="1d")
    pauses = [decide(many, [failed()] * count, NOW).pause_s for count in (1, 2, 3, 4, 50)]  # type: ignore[union-attr]
    assert pauses == [0.0, 2.0, 4.0, 8.0, 300.0]
    assert decide(rules(backoff="0s"), [failed()] * 3, NOW) == Restart(3, 0.0)


def test_the_last_restart_is_the_last() -> None:
    found = decide(DEFAULTS, [failed()] * 4, NOW)
    assert found == Stop("It was restarted 3 times within 1 h and kept no newer checkpoint.")


def test_restarts_of_long_ago_do_not_count() -> None:
    assert decide(DEFAULTS, [failed(ago_s=3_601)] * 3 + [failed()], NOW) == Restart(1, 0.0)
    assert isinstance(decide(rules(window="2h"), [failed(ago_s=3_601)] * 3 + [failed()], NOW), Stop)


def test_a_newer_checkpoint_heals() -> None:
    before = [failed(ago_s=60, kept_step=100)] * 3
    assert isinstance(decide(DEFAULTS, [*before, failed(kept_step=100)], NOW), Stop)
    assert decide(DEFAULTS, [*before, failed(kept_step=120)], NOW) == Restart(1, 0.0)
    assert decide(DEFAULTS, [failed(ago_s=60), failed(kept_step=20)], NOW) == Restart(1, 0.0)
    in_memory = [failed(ago_s=60, kept_step=100, memory_step=130), failed(kept_step=100, memory_step=162)]
    assert decide(DEFAULTS, in_memory, NOW) == Restart(1, 0.0), "a state in memory is progress, too"
    assert decide(DEFAULTS, [in_memory[1], in_memory[1]], NOW).number == 2


def test_the_same_failure_in_the_same_step_twice_is_the_end() -> None:
    on = rules(on={"user-error": "restart"})
    once = failed("user-error", 60, signature="user-error/ValueError", step=35)
    assert isinstance(decide(on, [once], NOW), Restart)
    again = failed("user-error", signature="user-error/ValueError", step=35)
    assert decide(on, [once, again], NOW) == Stop(
        "It failed in the same way in step 35 before, so it is not restarted."
    )
    elsewhere = failed("user-error", signature="user-error/ValueError", step=36)
    assert isinstance(decide(on, [once, elsewhere], NOW), Restart)
    early = failed("user-error", signature="user-error/KeyError")
    assert decide(on, [early, early], NOW) == Stop(
        "It failed in the same way before its first step before, so it is not restarted."
    )


def test_a_kill_in_the_same_step_twice_proves_nothing() -> None:
    assert isinstance(decide(DEFAULTS, [failed(step=35), failed(step=35)], NOW), Restart)


def test_a_lack_of_memory_is_tried_once_unless_the_spec_says_more() -> None:
    twice = [failed("out-of-memory", 60), failed("out-of-memory")]
    assert decide(DEFAULTS, twice, NOW) == Stop(
        "It was restarted after out-of-memory once before, so it is not restarted again."
    )
    assert decide(rules(on={"out-of-memory": "restart"}), twice, NOW) == Restart(2, 2.0)


def test_the_spec_says_what_follows() -> None:
    assert decide(rules(on={"killed": "stop"}), [failed()], NOW) == Stop()
    assert isinstance(decide(rules(on={"user-error": "restart"}), [failed("user-error")], NOW), Restart)
    stored = RestartRules.of({"restarts": {"max": 3, "on": {"data-problem": "restart"}}})
    assert decide(stored, [failed("data-problem")], NOW) == Stop(), "whatever a stored spec says"


def test_a_node_with_a_broken_gpu_is_left_out_for_a_while() -> None:
    broken = failed("gpu-fault", 60, node="b", node_name="node-b")
    found = decide(DEFAULTS, [broken, failed(node="a", node_name="node-a")], NOW)
    assert isinstance(found, Restart)
    assert [(one.name, one.why, one.until, one.is_excluded) for one in found.left_out] == [
        ("node-b", "gpu-fault there", NOW - 60 + LEFT_OUT_S, True)
    ]
    later = decide(rules(window="1d"), [failed("gpu-fault", LEFT_OUT_S, node="b"), failed()], NOW)
    assert isinstance(later, Restart) and later.left_out == ()


def test_a_node_with_repeated_failures_comes_last() -> None:
    found = decide(DEFAULTS, [failed(ago_s=9, node="b", node_name="node-b"), failed(node="b", node_name="node-b")], NOW)
    assert isinstance(found, Restart)
    assert [(one.name, one.why, one.is_excluded) for one in found.left_out] == [("node-b", "2 failures there", False)]


def test_machines_that_were_taken_back_do_not_count_however_often() -> None:
    often = [failed("preempted", ago_s=float(ago)) for ago in range(20, 0, -1)]
    assert decide(DEFAULTS, often, NOW) == Restart(1, 0.0)
    assert decide(rules(max=1), [failed("killed", ago_s=9.0), *often], NOW) == Restart(2, 0.0)
    assert isinstance(decide(rules(max=1), [failed("killed", ago_s=9.0), *often, failed("killed")], NOW), Stop)


def test_a_disk_that_is_full_in_the_same_step_of_two_nodes_is_filled_by_the_run() -> None:
    signature = signature_of(CauseClass.DISK_FULL, {"exit_code": 1, "traceback": "OSError: [Errno 28] No space left"})
    one = failed("disk-full", 60, node="a", node_name="node-a", step=40, signature=signature)
    other = failed("disk-full", node="b", node_name="node-b", step=40, signature=signature)
    assert decide(DEFAULTS, [one, other], NOW) == Stop(
        "It failed in the same way in step 40 before, so it is not restarted."
    )


def test_a_node_that_cannot_use_the_data_is_left_out_and_a_second_one_is_the_end() -> None:
    first = failed("node-unfit", 60, node="a", node_name="node-a", signature="node-unfit/NodeDataProblem")
    found = decide(DEFAULTS, [first], NOW)
    assert isinstance(found, Restart) and [one.name for one in found.left_out] == ["node-a"]
    second = failed("node-unfit", node="b", node_name="node-b", signature="node-unfit/NodeDataProblem")
    assert isinstance(decide(DEFAULTS, [first, second], NOW), Stop)
