"""User code that goes wrong without a limit: its run ends with a true sentence, and nothing is left of it."""

from __future__ import annotations

import os
from typing import Any

import psutil

from tests.chaos.scene import Scene
from tests.servers import short_folder
from trainyard.bundle import pack

ESCAPEES = 60
LOG_STEPS = """
import os, resource, signal, sys, time
import trainyard

run = trainyard.init()
for step in range(1, 21):
    run.log({"train/loss": 1 / step}, step=step)
"""
# Children in sessions of their own that ignore every polite signal, children of theirs, and nobody waits for them.
FORK_BOMB = f"""
mark = "trainyard-escapee"
for number in range({ESCAPEES}):
    if os.fork() == 0:
        os.setsid()
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        os.fork()
        words = [sys.executable, "-c", "import time; time.sleep(600)", mark, os.environ["TRAINYARD_RUN"]]
        os.execv(sys.executable, words)
time.sleep(1)
raise RuntimeError("the children are on their own")
"""
ALLOCATION = """
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
bytearray(100 << 30)
"""
KILLS_ITS_PARENT = """
time.sleep(0.5)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""
FLOOD = """
for number in range(20_000):
    run.log({f"flood/{number}": number}, step=20)
sys.stdout.write("x" * (20 << 20) + "\\n")
sys.stdout.flush()
os.write(1, b"\\xff\\xfe\\x80 no UTF-8 \\xc3\\x28\\n" * 1000)
for step in range(21, 1001):
    run.log({"train/loss": 1 / step}, step=step)
"""


def children_flee(scene: Scene) -> None:
    run = submit(scene, FORK_BOMB)
    ended = scene.yard.wait_for_end(run)
    assert "the children are on their own" in ended["reason"]["sentence"], ended["reason"]
    scene.wait_until_true(lambda: not escapees(run), "no child of it is left")


def allocation_is_too_large(scene: Scene) -> None:
    run = submit(scene, ALLOCATION)
    ended = scene.yard.wait_for_end(run)
    assert "MemoryError" in ended["reason"]["sentence"], ended["reason"]


def code_kills_its_parent(scene: Scene) -> None:
    run = submit(scene, KILLS_ITS_PARENT)
    ended = scene.yard.wait_for_end(run)
    sentence = ended["reason"]["sentence"]
    assert "Operation not permitted" in sentence or "was killed" in sentence, ended["reason"]
    if "Operation not permitted" in sentence:  # its parent is of another Unix user
        expected = "user-error"
    elif sentence.startswith("Rank 0 "):  # its parent is outside of its PID namespace: it killed its own group, 0
        expected = "killed"
    else:
        expected = "process-lost"
    scene.check_blame(run, expected)


def code_floods(scene: Scene) -> None:
    """20,000 series, a line of 20 MB, and bytes that are no text: the run's own loss is all there."""
    run = submit(scene, FLOOD)
    ended = scene.yard.wait_for_end(run)
    assert ended["status"] == "SUCCEEDED", ended["reason"]
    assert scene.yard.steps(run, "train/loss") == {"[]": list(range(1, 1001))}, "the loss is whole"


def submit(scene: Scene, text: str) -> str:
    """Launch a script that logs 20 steps and then does this; it is not restarted."""
    with short_folder("ty-code-") as folder:
        (folder / "script.py").write_text(LOG_STEPS + text)
        bundle = scene.yard.http.post("/bundles", content=pack(folder)[0]).raise_for_status().json()
    task: dict[str, Any] = {"script": "script.py", "code": {"sha256": bundle["sha256"]}}
    resources = {"nodes": 1, "accelerator": "cpu"}
    spec = {"name": "bad", "resources": resources, "task": task, "restarts": {"max": 0}}
    return scene.take(scene.yard.submit(spec))


def escapees(run: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "uids"]):
        words = process.info["cmdline"] or []
        if words[-2:] == ["trainyard-escapee", run] and process.info["uids"].real == os.getuid():
            found.append(process.pid)
    return found
