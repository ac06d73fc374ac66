"""How ranks are ended when the server wants it, and that nobody else can."""

from __future__ import annotations

import time

import pytest

from tests.workers.control import ControlledNode, until
from tests.workers.junk import JUNK
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.seals import INSPECT, NUDGE, command_scope, new_key, node_queue, seal
from workers.machine.processes import start_of

SLEEPER = "import time; print('up', flush=True); time.sleep(3600)"
POLITE = """
import signal, sys, time
def leave(number, frame):
    print("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("up")
time.sleep(3600)
"""
STEPPER = """
import itertools, time
for step in itertools.count(1):
    print(step, flush=True)
    time.sleep(0.05)
"""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(3600)"


def test_stop_lets_a_rank_end_by_itself(calm_node: ControlledNode) -> None:
    order = calm_node.order(POLITE)
    calm_node.launch(order)
    until(lambda: "up" in calm_node.lines(order))
    calm_node.say(order, wanted="stop")
    report = calm_node.wait_for(order, "ended")
    assert report["reason"]["code"] == "stopped"
    assert report["ranks"][0]["exit_code"] == 0
    calm_node.wait_until_shipped(order)
    assert calm_node.lines(order) == ["up", "saved"]


def test_a_rank_that_does_not_listen_is_killed(calm_node: ControlledNode) -> None:
    order = calm_node.order(STUBBORN)
    calm_node.launch(order)
    until(lambda: "up" in calm_node.lines(order))
    calm_node.say(order, wanted="stop")
    assert calm_node.wait_for(order, "ended")["ranks"][0]["signal"] == 9


def test_stop_before_go_ends_an_attempt_without_ranks(calm_node: ControlledNode) -> None:
    order = calm_node.order(SLEEPER)
    calm_node.say(order)
    calm_node.wait_for(order, "ready")
    calm_node.say(order, wanted="stop")
    report = calm_node.wait_for(order, "ended")
    assert (report["reason"]["code"], report["ranks"]) == ("stopped", [])


def test_stop_of_an_attempt_that_never_came_is_confirmed_and_a_late_order_does_not_start_it(
    calm_node: ControlledNode,
) -> None:
    order = calm_node.order(SLEEPER)
    calm_node.say(order, wanted="stop", order=None)
    assert calm_node.wait_for(order, "ended")["reason"]["code"] == "stopped"
    calm_node.nudge(order)
    later = calm_node.order("pass")
    calm_node.launch(later)
    calm_node.wait_for(later, "ended")
    assert not calm_node.folder(order["attempt"]).was_started()


def test_a_newer_fence_ends_the_older_attempt_of_the_run(calm_node: ControlledNode) -> None:
    old = calm_node.order(SLEEPER)
    calm_node.launch(old)
    calm_node.wait_for(old, "running")
    del calm_node.attempts[old["attempt"]]
    new = calm_node.order(SLEEPER, run=old["run"], fence=2)
    calm_node.say(new)
    assert calm_node.wait_for(old, "ended")["reason"]["code"] == "stale_fence"
    calm_node.wait_for(new, "ready")
    calm_node.say(new, wanted="stop")
    calm_node.wait_for(new, "ended")


def test_an_attempt_that_is_listed_no_more_goes_on(calm_node: ControlledNode) -> None:
    order = calm_node.order(SLEEPER)
    calm_node.launch(order)
    pid = calm_node.wait_for(order, "running")["ranks"][0]["pid"]
    entry = calm_node.attempts.pop(order["attempt"])
    began = time.time()
    until(lambda: (calm_node.tick(), calm_node.up()["at"] > began + 3)[1])  # type: ignore[index]
    assert start_of(pid) is not None
    calm_node.attempts[order["attempt"]] = {**entry, "wanted": "stop"}
    calm_node.wait_for(order, "ended")


def test_one_failed_rank_ends_the_others_and_is_the_reason(calm_node: ControlledNode) -> None:
    script = "import os, time\nif os.environ['RANK'] == '1': raise RuntimeError('broken')\ntime.sleep(3600)"
    order = calm_node.order(script, ranks=2)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert report["reason"]["sentence"] == "Rank 1 on calm failed with RuntimeError: broken"
    assert [rank["signal"] for rank in report["ranks"]] == [9, None]


def test_a_supervisor_that_may_be_replaced_ends_its_ranks_before_the_lease_does(calm_node: ControlledNode) -> None:
    order = calm_node.order(SLEEPER, lease_s=3.0)
    calm_node.launch(order)
    calm_node.say(order, may_replace=True)
    until(lambda: calm_node.wait_for(order, "running")["is_leased"])
    # Not a word from here on: the old document stays, and says nothing new.
    report = until(lambda: (found := calm_node.report(order)) and found["phase"] == "ended" and found)
    assert report["reason"]["code"] == "lease_expired"


def test_before_go_the_server_looks_for_another_place_and_a_supervisor_without_contact_ends(
    calm_node: ControlledNode,
) -> None:
    order = calm_node.order(SLEEPER, lease_s=3.0)
    calm_node.say(order)
    assert calm_node.wait_for(order, "ready")["is_leased"]
    report = until(lambda: (found := calm_node.report(order)) and found["phase"] == "ended" and found)
    assert (report["reason"]["code"], report["ranks"]) == ("lease_expired", [])


def test_a_server_that_is_away_for_longer_than_the_lease_costs_nothing(calm_node: ControlledNode) -> None:
    order = calm_node.order(STEPPER, lease_s=1.0)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "running")
    pid = report["ranks"][0]["pid"]
    assert report["is_leased"] is False, "it was told that nobody replaces it"
    until(lambda: calm_node.lines(order))
    time.sleep(3.0)  # the server is away: three leases
    assert start_of(pid) is not None
    after = calm_node.wait_for(order, "running")
    assert after["ranks"][0]["pid"] == pid, "it is adopted as it is"
    before = len(calm_node.lines(order))
    until(lambda: len(calm_node.lines(order)) > before)
    calm_node.say(order, wanted="stop")
    assert calm_node.wait_for(order, "ended")["reason"]["code"] == "stopped"
    calm_node.wait_until_shipped(order)
    steps = [int(line) for line in calm_node.lines(order)]
    assert steps == list(range(1, len(steps) + 1)), "not a step was lost"


@pytest.mark.parametrize("successor", ["none", "here"])
def test_an_attempt_that_was_given_up_meanwhile_ends_when_contact_returns(
    calm_node: ControlledNode, successor: str
) -> None:
    order = calm_node.order(SLEEPER, lease_s=1.0)
    calm_node.launch(order)
    pid = calm_node.wait_for(order, "running")["ranks"][0]["pid"]
    time.sleep(2.0)  # the server is away
    assert start_of(pid) is not None
    if successor == "here":  # the down document has the newer attempt of the run
        del calm_node.attempts[order["attempt"]]
        new = calm_node.order(SLEEPER, run=order["run"], fence=2)
        calm_node.say(new)
    else:  # it lists what this node still has, and that it must end
        calm_node.say(order, wanted="stop", order=None, go=None)
    code = "stale_fence" if successor == "here" else "stopped"
    assert calm_node.wait_for(order, "ended")["reason"]["code"] == code
    assert start_of(pid) is None
    if successor == "here":
        calm_node.say(new, wanted="stop")
        calm_node.wait_for(new, "ended")


def test_a_forged_command_starts_nothing(calm_node: ControlledNode) -> None:
    order = calm_node.order(SLEEPER)
    scope = command_scope(NUDGE, calm_node.id)
    entry = {"run": order["run"], "fence": 1, "wanted": "prepare", "order": to_builtins(calm_node.locked(order))}
    command = {"attempts": {order["attempt"]: entry}}
    own = seal(calm_node.key, command_scope(INSPECT, calm_node.id), {"at": time.time(), **command})
    old = seal(calm_node.key, scope, {"at": time.time() - 7200, **command})
    for sealed in (seal(new_key(), scope, {"at": time.time(), **command}), own, old, "nonsense"):
        calm_node.app.send_task(NUDGE, kwargs={"sealed": sealed}, queue=node_queue(calm_node.name))
    until(lambda: not calm_node.valkey.llen(node_queue(calm_node.name)))
    until(lambda: calm_node.log().count("command.refused") >= 4)
    assert calm_node.folder(order["attempt"]).order() is None


def test_a_locked_order_starts_from_a_command_and_from_the_down_document(calm_node: ControlledNode) -> None:
    for by_command in (True, False):
        order = calm_node.order("print('opened')")
        if by_command:
            calm_node.nudge(order)
        else:
            calm_node.say(order, order=calm_node.locked(order))
        ready = calm_node.wait_for(order, "ready")
        go = {"master_addr": ready["address"], "master_port": ready["port"]}
        calm_node.say(order, wanted="run", go=go, order=None)
        assert calm_node.wait_for(order, "ended")["reason"] is None


def test_what_is_no_message_of_the_server_ends_no_node_and_runs_nothing(calm_node: ControlledNode) -> None:
    for raw in JUNK:
        calm_node.valkey.lpush(node_queue(calm_node.name), raw)
    order = calm_node.order("print('after all')")
    calm_node.launch(order)
    calm_node.wait_for(order, "ended")
    assert not calm_node.valkey.llen(node_queue(calm_node.name))
    assert calm_node.process is not None and calm_node.process.poll() is None


def test_a_rank_has_the_grace_that_the_spec_gives(calm_node: ControlledNode) -> None:
    """Saving takes longer than five seconds in many a script."""
    slow = POLITE.replace('print("saved")', 'time.sleep(6); print("saved")')
    order = with_grace(calm_node.order(slow), "20s")
    calm_node.launch(order)
    until(lambda: "up" in calm_node.lines(order))
    calm_node.say(order, wanted="stop", grace_s=None)
    evidence = calm_node.wait_for(order, "ended")["reason"]["evidence"]
    assert 6 <= evidence["took_s"] < 12
    assert (evidence["grace_s"], evidence["killed"]) == (20.0, [])
    calm_node.wait_until_shipped(order)
    assert calm_node.lines(order) == ["up", "saved"]


def test_who_does_not_end_within_the_grace_is_named(calm_node: ControlledNode) -> None:
    order = with_grace(calm_node.order(STUBBORN, ranks=2), "1s")
    calm_node.launch(order)
    until(lambda: calm_node.lines(order).count("up") == 2)
    calm_node.say(order, wanted="stop", grace_s=None)
    evidence = calm_node.wait_for(order, "ended")["reason"]["evidence"]
    assert evidence["killed"] == [0, 1] and 1 <= evidence["took_s"] < 4


def test_a_grace_that_the_server_takes_back_ends_the_ranks_at_once(calm_node: ControlledNode) -> None:
    order = with_grace(calm_node.order(STUBBORN), "600s")
    calm_node.launch(order)
    until(lambda: "up" in calm_node.lines(order))
    calm_node.say(order, wanted="stop", grace_s=None)
    calm_node.wait_for(order, "stopping")
    calm_node.say(order, grace_s=0.0)
    evidence = calm_node.wait_for(order, "ended")["reason"]["evidence"]
    assert evidence["killed"] == [0] and evidence["took_s"] < 30


def with_grace(order: JsonObject, grace: str) -> JsonObject:
    return {**order, "spec": {**order["spec"], "limits": {"time": "", "grace": grace}}}
