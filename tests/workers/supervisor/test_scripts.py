"""A user's own script, from the order to the final report, on a real node worker."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trainyard.spooled import points
from tests.workers.control import ControlledNode, outside_pid, until
from trainyard.contract.base import JsonObject
from workers.machine.processes import with_environment
from workers.sandbox.node import find_isolation

HELLO = """
import os, sys
import trainyard
run = trainyard.init()
for step in range(3):
    run.log({"train/loss": 1.0 / (step + 1)}, step=step)
run.finish()
print("hello from", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
print("on the side", file=sys.stderr)
"""


# Longer than the 10 s in which a rank once had to exit.
CHILD_AT_WORK = """
import multiprocessing, time

def late():
    time.sleep(13)
    print("saved", flush=True)

if __name__ == "__main__":
    multiprocessing.Process(target=late).start()
    print("over", flush=True)
"""
SAVES_AT_EXIT = """
import atexit, time
atexit.register(lambda: (time.sleep(13), print("saved", flush=True)))
print("over", flush=True)
"""


def run(node: ControlledNode, script: str, **changes: Any) -> tuple[JsonObject, JsonObject]:
    order = node.order(script, **changes)
    node.launch(order)
    return order, node.wait_for(order, "ended")


def with_task(node: ControlledNode, script: str, **task: Any) -> JsonObject:
    return node.order(script, spec={"task": {"script": "train.py", "arguments": [], **task}})


def test_a_script_runs_to_its_end_and_all_that_it_said_is_shipped(calm_node: ControlledNode) -> None:
    order, report = run(calm_node, HELLO, ranks=2)
    assert report["reason"] is None
    assert [rank["exit_code"] for rank in report["ranks"]] == [0, 0]
    calm_node.wait_until_shipped(order)
    assert sorted(calm_node.lines(order)) == ["hello from 0 of 2", "hello from 1 of 2"]
    assert calm_node.lines(order, "stderr") == ["on the side"] * 2
    shipped = calm_node.shipped(order)
    assert {frame.payload["g"][0][1][0] for frame in shipped if frame.kind == "points"} >= {"train/loss"}
    assert {frame.producer for frame in shipped} == set(report["producers"])
    assert sorted({frame.sequence for frame in shipped if frame.kind == "end"}) == sorted(
        set(report["producers"].values())
    )


def test_who_waits_for_what_cannot_come_any_more_is_told_at_once(calm_node: ControlledNode) -> None:
    order, _ = run(calm_node, "raise SystemExit(3)")
    with pytest.raises(AssertionError, match=r"it is over before it is ready: .*ended with exit code 3"):
        calm_node.wait_for(order, "ready")


@pytest.mark.parametrize(
    ("script", "code", "sentence"),
    [
        ("raise SystemExit(3)", 3, "ended with exit code 3"),
        ("raise SystemExit('no data')", 1, "ended with exit code 1"),
        ("import os; os._exit(7)", 7, "ended with exit code 7"),
        ("raise SystemExit", 0, None),
        ("1/0", 1, "failed with ZeroDivisionError: division by zero"),
        ("def f(:", 1, "failed with SyntaxError"),
    ],
)
def test_exit_codes_are_pythons_own(calm_node: ControlledNode, script: str, code: int, sentence: str | None) -> None:
    _, report = run(calm_node, script)
    assert report["ranks"][0]["exit_code"] == code
    if sentence is None:
        assert report["reason"] is None
    else:
        assert report["reason"]["code"] == "rank_failed"
        assert sentence in report["reason"]["sentence"]


def test_an_exception_is_printed_and_reported_from_the_users_own_frames_on(calm_node: ControlledNode) -> None:
    order, report = run(calm_node, "def inner():\n    raise ValueError('\\x1b[1mtoo\\x1b[0m deep')\n\ninner()\n")
    error = report["ranks"][0]["error"]
    assert (error["type"], error["message"]) == ("ValueError", "too deep")
    assert "in inner" in error["traceback"]
    assert "workers/rank_process/run.py" not in error["traceback"]
    calm_node.wait_until_shipped(order)
    assert "ValueError: \x1b[1mtoo\x1b[0m deep" in calm_node.lines(order, "stderr")
    assert report["reason"]["evidence"]["stderr"][-1] == "ValueError: too deep"


def test_a_node_without_torch_runs_what_needs_none_and_names_what_is_missing(bare_node: ControlledNode) -> None:
    order, report = run(bare_node, HELLO, ranks=2)
    assert report["reason"] is None, report
    bare_node.wait_until_shipped(order)
    assert sorted(bare_node.lines(order)) == ["hello from 0 of 2", "hello from 1 of 2"]
    _, report = run(bare_node, "import torch")
    assert "failed with ModuleNotFoundError: No module named 'torch'" in report["reason"]["sentence"]


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_a_signal_is_reported_by_its_name_and_with_the_line_it_came_at(
    calm_node: ControlledNode, task: dict[str, Any]
) -> None:
    order = with_task(calm_node, "import os\n\ndef inner():\n    os.abort()\n\ninner()\n", **task)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert (report["ranks"][0]["exit_code"], report["ranks"][0]["signal"]) == (None, 6)
    assert report["reason"]["sentence"] == "Rank 0 on calm was killed by SIGABRT (6)."
    last = report["reason"]["evidence"]["stderr"]
    assert [line for line in last if 'train.py", line 4 in inner' in line], last
    calm_node.wait_until_shipped(order)
    assert "Fatal Python error: Aborted" in calm_node.lines(order, "stderr")


def test_a_script_may_ask_not_to_hear_of_signals(calm_node: ControlledNode) -> None:
    environment = {"PYTHONFAULTHANDLER": ""}
    order = with_task(calm_node, "import os; os.abort()", python=sys.executable, environment=environment)
    calm_node.launch(order)
    assert calm_node.wait_for(order, "ended")["reason"]["evidence"]["stderr"] == []


def test_a_script_finds_what_a_fresh_interpreter_would_give_it(calm_node: ControlledNode) -> None:
    script = """
import json, os, pickle, signal, sys, threading
class Mine: pass
assert pickle.loads(pickle.dumps(Mine())).__class__ is Mine
def late():
    print(json.dumps({
        "argv": sys.argv[1:], "path": sys.path[0] == os.getcwd(), "name": __name__, "file": os.path.basename(__file__),
        "environment": dict(os.environ), "open": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:4],
        "default": {signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1)} == {signal.SIG_DFL},
        "mask": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "stdin": sys.stdin.read(),
    }))
threading.Timer(0.2, late).start()
"""
    task = {"distributed": True, "environment": {"MINE": "yes", "RANK": "99"}}
    order = with_task(calm_node, script, arguments=["--lr", "3e-4"], **task)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert report["reason"] is None, report
    calm_node.wait_until_shipped(order)
    found = json.loads(calm_node.lines(order)[0])
    assert found["argv"] == ["--lr", "3e-4"]
    assert (found["path"], found["name"], found["file"]) == (True, "__main__", "train.py")
    assert (found["default"], found["mask"], found["stdin"]) == (True, 0, "")
    assert found["open"][:3] == [0, 1, 2]
    environment = found["environment"]
    assert (environment["MINE"], environment["RANK"], environment["TRAINYARD_NODE"]) == ("yes", "0", "calm")
    assert environment["HOME"] == str(calm_node.folder(order["attempt"]).home)
    assert calm_node.key not in json.dumps(found)
    assert not {"OPENBLAS_NUM_THREADS", "TRAINYARD_HOME", "VIRTUAL_ENV"} & environment.keys()


def test_ranks_do_not_share_their_random_numbers(calm_node: ControlledNode) -> None:
    script = "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(1).item())"
    order, _ = run(calm_node, script, ranks=2)
    calm_node.wait_until_shipped(order)
    one, other = (line.split() for line in calm_node.lines(order))
    assert not set(one) & set(other)


def test_another_interpreter_starts_cold_and_is_watched_all_the_same(calm_node: ControlledNode) -> None:
    script = """
import sys, trainyard
run = trainyard.init()
run.log({"train/loss": 1.0}, step=1)
run.finish()
print(sys.argv[1])
sys.exit(5)
"""
    order = with_task(calm_node, script, python=sys.executable, arguments=["cold"])
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    assert report["ranks"][0]["exit_code"] == 5
    calm_node.wait_until_shipped(order)
    assert calm_node.lines(order) == ["cold"]
    points = [frame.payload["g"][0][1][0] for frame in calm_node.shipped(order) if frame.kind == "points"]
    assert "train/loss" in points  # where trainyard is installed there, it logs as ever


def test_an_interpreter_that_is_not_there_is_refused_before_anything_starts(calm_node: ControlledNode) -> None:
    order = with_task(calm_node, "print('never')", python="/nowhere/bin/python")
    calm_node.say(order)
    report = calm_node.wait_for(order, "refused")
    assert report["reason"]["code"] == "python_missing"
    assert "There is no file /nowhere/bin/python on calm" in report["reason"]["sentence"]
    assert not calm_node.folder(order["attempt"]).was_started()


def test_an_environment_that_is_closed_to_the_ranks_user_is_refused_in_words(
    calm_node: ControlledNode, own_environment: Path
) -> None:
    own_environment.chmod(0o700)
    order = with_task(calm_node, "print('never')", python=str(own_environment / "bin" / "python"))
    if not find_isolation(calm_node.base).is_other_user:
        pytest.skip("ranks run as the node's own user here")
    calm_node.say(order)
    reason = calm_node.wait_for(order, "refused")["reason"]
    assert f"since {own_environment} is closed to others" in reason["sentence"]


def test_an_environment_of_its_own_has_its_own_packages_and_is_fenced(
    calm_node: ControlledNode, own_environment: Path
) -> None:
    """Its child that hides in a session of its own is ended with it, and found by what stands in its environment."""
    [packages] = (own_environment / "lib").glob("python3*/site-packages")
    (packages / "only_here.py").write_text("word = 'only here'")
    script = """
import os, subprocess, sys, time
import only_here
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(only_here.word, sys.prefix, os.environ["RANK"], os.environ["WORLD_SIZE"], "torch" in sys.modules, child.pid)
print("on the side", file=sys.stderr)
time.sleep(600)
"""
    order = with_task(calm_node, script, python=str(own_environment / "bin" / "python"), distributed=True)
    calm_node.launch(order)
    [line] = until(lambda: calm_node.lines(order))
    word, prefix, rank, world, has_torch, child = line.rsplit(" ", 5)
    assert (word, prefix, rank, world, has_torch) == ("only here", str(own_environment), "0", "1", "False")
    rank_pid = calm_node.wait_for(order, "running")["ranks"][0]["pid"]
    assert outside_pid(int(child), rank_pid) in {
        one.pid for one in with_environment(TRAINYARD_ATTEMPT=order["attempt"])
    }
    assert until(lambda: calm_node.lines(order, "stderr")) == ["on the side"]
    calm_node.say(order, wanted="stop")
    calm_node.wait_for(order, "ended")
    assert with_environment(TRAINYARD_ATTEMPT=order["attempt"]) == []


def test_a_script_that_is_not_in_the_code_is_refused_before_anything_starts(calm_node: ControlledNode) -> None:
    order = calm_node.order("print('never')", spec={"task": {"script": "other.py"}})
    calm_node.say(order)
    report = calm_node.wait_for(order, "refused")
    assert report["reason"]["code"] == "script_missing"
    assert not calm_node.folder(order["attempt"]).was_started()


def test_what_a_progress_bar_and_a_careless_program_print_becomes_lines(calm_node: ControlledNode) -> None:
    script = r"""
import sys
sys.stdout.buffer.write(b"10%\r50%\r100%\nbad \xff byte\n" + b"x" * 100_000 + b"\nno end")
"""
    order, _ = run(calm_node, script)
    calm_node.wait_until_shipped(order)
    lines = calm_node.lines(order)
    assert lines[:2] == ["100%", "bad \ufffd byte"]
    assert [len(line) for line in lines[2:4]] == [65536, 100_000 - 65536]
    assert lines[4:] == ["no end"]


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_what_is_at_work_behind_the_last_line_of_a_script_comes_to_its_end(
    calm_node: ControlledNode, task: dict[str, Any]
) -> None:
    orders = [with_task(calm_node, script, **task) for script in (CHILD_AT_WORK, SAVES_AT_EXIT)]
    for order in orders:
        calm_node.launch(order)
    for order in orders:
        assert calm_node.wait_for(order, "ended")["reason"] is None
        calm_node.wait_until_shipped(order)
        assert calm_node.lines(order) == ["over", "saved"]


@pytest.mark.extended  # it takes a minute
def test_a_rank_that_does_nothing_and_does_not_exit_is_ended_and_the_run_has_failed(calm_node: ControlledNode) -> None:
    _, report = run(calm_node, "import atexit, time; atexit.register(time.sleep, 3600)")
    assert (report["ranks"][0]["signal"], report["ranks"][0]["exit_hang"]) == (9, True)
    assert "its exit functions (atexit) still had to do is lost" in report["reason"]["sentence"]


def test_variables_in_arguments_are_those_of_each_rank(calm_node: ControlledNode) -> None:
    order = calm_node.order("import sys; print(sys.argv[1:])", ranks=2)
    order["spec"]["task"]["arguments"] = ["${RANK} of ${WORLD_SIZE}", "${TRAINYARD_OUTPUT}/x", "$${RANK}"]
    calm_node.launch(order)
    calm_node.wait_for(order, "ended")
    calm_node.wait_until_shipped(order)
    output = calm_node.folder(order["attempt"]).output
    assert sorted(calm_node.lines(order)) == [str([f"{rank} of 2", f"{output}/x", "${RANK}"]) for rank in range(2)]


SHADOWED = """
import subprocess, sys
import wandb
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter("runs/here")
wandb.init(mode="offline")
for step in range(5):
    wandb.log({"loss": step})
    writer.add_scalar("val/loss", step, step)
wandb.finish()
writer.close()
print(sys.path[0].rpartition("/")[2], any("shadow/hook" in entry for entry in sys.path))
child = "import wandb; wandb.init(mode='offline'); wandb.log({'child': 1})"
subprocess.run([sys.executable, "-c", child], check=True)
"""


@pytest.mark.parametrize("python", ["", sys.executable])
def test_what_a_script_sends_elsewhere_is_the_runs_once(calm_node: ControlledNode, python: str) -> None:
    order, report = run(calm_node, SHADOWED, **{"spec": {"task": {"script": "train.py", "arguments": [], "shadow": True,
                        "python": python, "environment": {"WANDB_SILENT": "true"}}}})  # fmt: skip
    assert report["reason"] is None, calm_node.lines(order, "stderr")
    calm_node.wait_until_shipped(order)
    found: dict[str, int] = {}
    for frame in calm_node.shipped(order):
        for name, series in ((key[0], series) for key, series in points([frame]).items()):
            found[name] = found.get(name, 0) + len(series)
    assert {name: found.get(name) for name in ("loss", "val/loss", "child")} == {"loss": 5, "val/loss": 5, "child": 1}
    assert calm_node.lines(order) == ["code False"]
