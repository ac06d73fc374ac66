"""Who dies with whom, with real processes and SIGKILL."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.disks import disk
from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, outside_pid, until
from trainyard.contract.base import JsonObject
from workers.machine.processes import children_of, start_of

# Each rank has a child that left its session, whose pid it prints; the child has one as well.
FAMILY = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        print("grandchild", os.getpid(), flush=True)
    time.sleep(3600)
sleeper = subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("sleeper", sleeper.pid, flush=True)
step = 0
while True:
    step += 1
    print("step", step, flush=True)
    time.sleep(0.1)
"""


def launch_family(node: ControlledNode) -> tuple[JsonObject, list[int]]:
    """Return the order and the pids of the rank and all its descendants."""
    order = node.order(FAMILY)
    node.launch(order)
    rank = node.wait_for(order, "running")["ranks"][0]["pid"]
    printed = until(lambda: _pids(node, order), about=lambda: node.lines(order)[:5])
    return order, [rank, *(outside_pid(pid, rank) for pid in printed)]


def _pids(node: ControlledNode, order: JsonObject) -> list[int]:
    found = [int(line.split()[1]) for line in node.lines(order) if line.startswith(("grandchild", "sleeper"))]
    return found if len(found) == 2 else []


def num_steps(node: ControlledNode, order: JsonObject) -> int:
    text = node.folder(order["attempt"]).stream_path(0, "stdout").read_text()
    return text.count("step")


def supervisor_of(node: ControlledNode, order: JsonObject) -> int:
    return int(node.wait_for(order, "running")["supervisor_pid"])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def zygote_of(node: ControlledNode) -> int:
    assert node.process is not None
    (pid,) = children_of(node.process.pid)
    return pid


def all_gone(pids: list[int]) -> bool:
    return all(start_of(pid) is None for pid in pids)


def test_what_was_killed_before_it_became_a_rank_is_reported_as_that_rank(calm_node: ControlledNode) -> None:
    order = calm_node.order("print('never')", ranks=2)
    calm_node.nudge(order)
    calm_node.say(order)
    supervisor = calm_node.wait_for(order, "ready")["supervisor_pid"]
    waiting = [pid for pid in children_of(supervisor) if Path(f"/proc/{pid}/comm").read_text() == "ty-waiting\n"]
    os.kill(waiting[1], signal.SIGKILL)
    until(lambda: waiting[1] not in children_of(supervisor))
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert report["reason"]["code"] == "rank_killed"
    assert [rank["signal"] for rank in report["ranks"] if rank["pid"] == waiting[1]] == [9]


def test_a_killed_rank_is_reported_with_its_signal(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    os.kill(pids[0], signal.SIGKILL)
    report = calm_node.wait_for(order, "ended")
    assert (report["reason"]["code"], report["ranks"][0]["signal"]) == ("rank_killed", 9)
    assert all_gone(pids)


def test_a_killed_rank_is_the_reason_where_the_others_do_not_end_by_themselves(calm_node: ControlledNode) -> None:
    order = calm_node.order(FAMILY, ranks=2)
    calm_node.launch(order)
    ranks = calm_node.wait_for(order, "running")["ranks"]
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    report = calm_node.wait_for(order, "ended")
    assert (report["reason"]["code"], report["reason"]["evidence"]["rank"]) == ("rank_killed", 1)


def test_a_killed_supervisor_takes_everybody_with_it_and_the_node_worker_says_so(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    supervisor = supervisor_of(calm_node, order)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: all_gone(pids))
    report = calm_node.wait_for(order, "ended")
    assert report["reason"]["code"] == "supervisor_killed"
    assert report["reason"]["evidence"]["supervisor_pid"] == supervisor
    assert report["ranks"][0]["ended_at"] is not None
    calm_node.wait_until_shipped(order)
    printed = calm_node.folder(order["attempt"]).stream_path(0, "stdout").read_text().splitlines()
    assert calm_node.lines(order) == printed


def test_a_killed_reaper_takes_everybody_with_it(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    os.kill(parent_of(supervisor_of(calm_node, order)), signal.SIGKILL)
    until(lambda: all_gone(pids))
    reason = calm_node.wait_for(order, "ended")["reason"]
    assert (reason["code"], reason["sentence"]) == (
        "fence_killed",
        "The process reaper on calm was killed; its ranks ended with it.",
    )


def test_reaper_and_supervisor_killed_at_once_leave_nobody_after_the_sweep(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    supervisor = supervisor_of(calm_node, order)
    folder = calm_node.folder(order["attempt"])
    until(lambda: set(pids) <= {process.pid for process in folder.recorded_processes()})
    reaper = parent_of(supervisor)
    for pid in (reaper, supervisor):
        os.kill(pid, signal.SIGSTOP)
    for pid in (reaper, supervisor):
        os.kill(pid, signal.SIGKILL)
    calm_node.wait_for(order, "ended")
    assert all_gone(pids)


def test_training_outlives_the_zygote_and_the_next_attempt_gets_a_new_one(bare_node: ControlledNode) -> None:
    order, _ = launch_family(bare_node)
    os.kill(zygote_of(bare_node), signal.SIGKILL)
    before = num_steps(bare_node, order)
    until(lambda: num_steps(bare_node, order) > before + 3)
    another = bare_node.order("print('warm again')")
    bare_node.launch(another)
    assert bare_node.wait_for(another, "ended")["reason"] is None


def test_training_outlives_the_node_worker_and_the_next_one_adopts_it(bare_node: ControlledNode) -> None:
    order, pids = launch_family(bare_node)
    bare_node.kill()
    before = num_steps(bare_node, order)
    until(lambda: num_steps(bare_node, order) > before + 3)
    assert bare_node.wait_for(order, "running")["phase"] == "running"
    bare_node.start()
    until(lambda: "attempt.adopted" in bare_node.log())
    up = until(lambda: (found := bare_node.up()) and found["pid"] == bare_node.process.pid and found)  # type: ignore[union-attr]
    assert up["attempts"][order["attempt"]]["phase"] == "running"
    bare_node.say(order, wanted="stop")
    assert bare_node.wait_for(order, "ended")["reason"]["code"] == "stopped"
    assert all_gone(pids)


def test_what_died_while_no_node_worker_lived_is_buried_by_the_next_one(bare_node: ControlledNode) -> None:
    order, pids = launch_family(bare_node)
    supervisor = supervisor_of(bare_node, order)
    bare_node.kill()
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: all_gone(pids))
    assert bare_node.report(order)["phase"] == "running"  # type: ignore[index]  # nobody is there to say otherwise
    bare_node.start()
    report = bare_node.wait_for(order, "ended")
    assert report["reason"]["code"] == "supervisor_killed"
    bare_node.wait_until_shipped(order)


def test_the_end_of_the_lifeline_ends_everything_in_order(
    home: Path, valkey: Valkey, python_without_torch: Path
) -> None:
    node = ControlledNode(home, valkey.url, python=python_without_torch)
    node.start(with_lifeline=True)
    try:
        order, pids = launch_family(node)
        assert node.process is not None
        node.cut_lifeline()
        node.process.wait(timeout=20)
        assert all_gone(pids)
        assert node.folder(order["attempt"]).lock_holder() is None
        assert node.report(order)["reason"]["code"] == "interrupted"  # type: ignore[index]
    finally:
        node.close()


def test_a_deleted_folder_ends_the_ranks_and_says_why(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    folder = calm_node.folder(order["attempt"]).path
    folder.rename(folder.with_name("deleted"))  # at once: what is deleted file by file is noticed halfway
    report = calm_node.wait_for(order, "ended")
    assert report["reason"]["code"] == "folder_deleted"
    assert "was deleted while it trained" in report["reason"]["sentence"]
    assert all_gone(pids)


def test_ranks_that_fill_the_disk_of_their_node_end_with_their_own_reason(
    valkey: Valkey, tmp_path: Path, python_without_torch: Path
) -> None:
    script = """
import os, pathlib, sys
with pathlib.Path(os.environ["TRAINYARD_OUTPUT"], "big").open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(65536))
    except OSError:
        pass
    try:
        while True:
            file.write(b"x")
    except OSError:
        os._exit(3)
"""
    with short_folder("ty-full-") as folder, disk(folder / "disk", mb=24) as home:
        node = ControlledNode(home, valkey.url, python=python_without_torch)
        node.start()
        try:
            order = node.order(script)
            node.launch(order)
            report = node.wait_for(order, "ended")
            assert report["ranks"][0]["exit_code"] == 3
            assert report["reason"]["sentence"] == ("Rank 0 on one, whose disk was full, ended with exit code 3.")
            assert report["reason"]["evidence"]["disk_full"]
            until(lambda: node.folder(order["attempt"]).is_ended())
            stored = node.folder(order["attempt"]).report()
            assert stored is not None and stored.reason is not None and stored.reason.code == "rank_failed"
        finally:
            node.close()


def test_a_rule_of_the_log_is_met_on_the_node_and_reported(calm_node: ControlledNode) -> None:
    order = calm_node.order("for n in range(5):\n    print('nfs: server', n, 'gone', flush=True)\n")
    order["log_rules"] = [{"label": "slow-disk", "pattern": r"nfs: server \d gone", "action": "exclude-node"}]
    calm_node.launch(order)
    (found,) = calm_node.wait_for(order, "ended")["matches"]
    assert (found["label"], found["action"], found["count"]) == ("slow-disk", "exclude-node", 5)
    assert (found["rank"], found["line"]) == (0, "nfs: server 0 gone")


def test_a_stopped_supervisor_is_reported_and_ended_with_its_ranks(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    os.kill(supervisor_of(calm_node, order), signal.SIGSTOP)

    def is_reported() -> bool:
        listed = (calm_node.up() or {})["attempts"].get(order["attempt"], {})
        return bool(listed.get("is_stopped"))

    until(is_reported, 10)
    reason = calm_node.wait_for(order, "ended")["reason"]
    assert (reason["code"], reason["sentence"]) == (
        "supervisor_stopped",
        "The supervisor on calm was stopped (SIGSTOP) for 15 s; calm ended it with its ranks.",
    )
    assert all_gone(pids)


def test_a_stopped_warm_process_is_replaced_before_anybody_waits_for_it(bare_node: ControlledNode) -> None:
    launch_family(bare_node)
    stopped = zygote_of(bare_node)
    os.kill(stopped, signal.SIGSTOP)
    until(lambda: start_of(stopped) is None, 10)
    order = bare_node.order("print('warm')")
    bare_node.launch(order)
    assert bare_node.wait_for(order, "ended")["reason"] is None


def test_where_the_first_process_of_the_namespaces_is_killed_no_rank_is_blamed(calm_node: ControlledNode) -> None:
    order, pids = launch_family(calm_node)
    inits = [pid for pid in children_of(supervisor_of(calm_node, order)) if name_of(pid) == "ty-init"]
    if not inits:
        pytest.skip("this machine gives ranks no namespaces")
    os.kill(inits[0], signal.SIGKILL)
    reason = calm_node.wait_for(order, "ended")["reason"]
    assert (reason["code"], reason["sentence"]) == (
        "init_killed",
        "The first process of the ranks' namespaces on calm (ty-init) was killed; the kernel ended the ranks with it.",
    )
    assert all_gone(pids)


ONE_LEAVES = (
    "import os, time\nrank = os.environ['RANK']\nprint(f'up {rank}', flush=True)\n"
    "time.sleep(600 if rank == '0' else 0)\n"
)


def test_a_rank_that_was_through_before_does_not_make_the_others_end_their_own(calm_node: ControlledNode) -> None:
    order = calm_node.order(ONE_LEAVES, ranks=2)
    calm_node.launch(order)
    until(lambda: [one["exit_code"] for one in (calm_node.report(order) or {"ranks": []})["ranks"]] == [None, 0])
    inits = [pid for pid in children_of(supervisor_of(calm_node, order)) if name_of(pid) == "ty-init"]
    if not inits:
        pytest.skip("this machine gives ranks no namespaces")
    os.kill(inits[0], signal.SIGKILL)
    assert calm_node.wait_for(order, "ended")["reason"]["code"] == "init_killed"


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()
