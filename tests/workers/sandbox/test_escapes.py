"""A script that reads what is not its own and forks without end: refused, named, and its neighbour trains on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from workers.sandbox.node import CannotIsolate, Isolation, find_isolation, user_of

pytestmark = pytest.mark.extended

LIMIT = 150
NEIGHBOUR = """
import json, statistics, time
times, before = [], time.perf_counter()
while not __import__("os").path.exists({stop!r}):
    sum(number * number for number in range(20_000))
    now = time.perf_counter()
    times.append(now - before)
    before = now
print(json.dumps([len(times), statistics.median(times), max(times)]))
"""
ATTACK = """
import ctypes, fcntl, json, os, signal, socket, sys, time

def tried(name, act):
    try:
        found[name] = str(act())[:60]
    except OSError as error:
        found[name] = type(error).__name__

def called(name, *arguments):
    ctypes.set_errno(0)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)
    return "done"

libc, found = ctypes.CDLL(None, use_errno=True), {{}}
for path in {paths!r}:
    tried(path, lambda: open(path, "rb").read(8).hex() if os.path.isfile(path) else os.listdir(path))
for pid in {pids!r}:
    tried("kill", lambda: os.kill(pid, 0) or "may be killed")
    tried("memory", lambda: open(f"/proc/{{pid}}/mem", "rb").close() or "opened")
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
found["processes"] = str(len(others))
tried("mount", lambda: called("mount", b"none", b"/mnt", b"tmpfs", 0, None))
tried("user namespace", lambda: called("unshare", 0x10000000))
tried("become root", lambda: os.setuid(0) or "root")
tried("file handle", lambda: called("open_by_handle_at", -100, b"12345678901234567890", 0))
tried("tracing", lambda: called("syscall", 298, b"", 0, -1, -1, 0))
tried("terminal", lambda: fcntl.ioctl(os.openpty()[1], 0x5412, b"x"))
print(json.dumps(found), flush=True)
children = []
for _ in range({most}):
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    children.append(child)
    if len(children) % 20 == 0:
        print("forked", len(children), flush=True)
raise SystemExit("nothing stopped the fork bomb")
"""
FILTERED = ("user namespace", "become root", "file handle", "tracing", "terminal")  # level 1 has no filter
HUNGRY = """
held = []
while True:
    held.append(bytearray(b"x") * (8 << 20))
"""
CLOSED_NETWORK = """
import os, socket
import torch, torch.distributed as dist
try:
    socket.create_connection(({address!r}, {port}), timeout=5)
    print("reached the node")
except OSError as error:
    print(type(error).__name__)
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(int(total), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def node(own_valkey: Valkey) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        one = ControlledNode(folder, own_valkey.url, name="attacked")
        yield one
        one.close()


def start(node: ControlledNode, **settings: str) -> Isolation:
    """Start the node worker, or skip where this machine does not allow what the settings ask for."""
    try:
        isolation = find_isolation(node.base, environ=settings)
    except CannotIsolate as error:
        pytest.skip(str(error))
    node.start(TRAINYARD_RANK_PROCESSES=str(LIMIT), **settings)
    return isolation


def ordered(node: ControlledNode, script: str, project: str, **changes: Any) -> JsonObject:
    task = {"script": "train.py", "arguments": []}
    return node.order(script, spec={"project": project, "task": task}, **changes)


@pytest.mark.parametrize("level", [1, 2])
def test_an_attack_is_refused_and_named_and_the_neighbour_is_undisturbed(
    node: ControlledNode, open_folder: Path, level: int
) -> None:
    isolation = start(node, TRAINYARD_ISOLATION=str(level))
    if not isolation.is_other_user:
        pytest.skip(f"ranks are no other user here: {isolation.missing}")
    database, checkpoint = node.base / "trainyard.sqlite3", node.home / "checkpoints" / "other" / "step-1.fence-1"
    database.write_text("rows")
    checkpoint.mkdir(parents=True)
    (checkpoint / "state").write_text("weights")
    stop = open_folder / "stop"
    neighbour = ordered(node, NEIGHBOUR.format(stop=str(stop)), "calm")
    node.launch(neighbour)
    calm = node.wait_for(neighbour, "running")["ranks"][0]["pid"]
    paths = [str(one) for one in (database, checkpoint / "state", node.home / "node.toml", node.home / "attempts")]
    attack = ordered(node, ATTACK.format(paths=paths, pids=[calm], most=3 * LIMIT), "attack")
    node.launch(attack)
    report = node.wait_for(attack, "ended")
    node.wait_until_shipped(attack)
    lines = node.lines(attack)
    assert lines, node.lines(attack, "stderr")
    found = json.loads(lines[0])
    print(f"level {level}: {found}")
    assert found.pop(str(node.home / "attempts")) in (str([attack["attempt"]]), "PermissionError")
    num_seen, by_filter = int(found.pop("processes")), {name: found.pop(name) for name in FILTERED}
    assert set(found.values()) <= {"PermissionError", "FileNotFoundError", "ProcessLookupError"}, found
    if level == 2:
        assert set(by_filter.values()) == {"PermissionError"}, by_filter
        assert (num_seen, found["kill"]) == (0, "ProcessLookupError")
    error = report["ranks"][0]["error"]
    assert error is not None, (report["ranks"], lines, node.lines(attack, "stderr"))
    assert (
        error["type"] == "BlockingIOError"
        and "as many processes and threads as this node lets them" in error["message"]
    )
    assert len(lines) <= LIMIT / 20 + 1
    stop.touch()
    ended = node.wait_for(neighbour, "ended")
    assert ended["ranks"][0]["exit_code"] == 0
    node.wait_until_shipped(neighbour)
    number, middle, longest = json.loads(node.lines(neighbour)[0])
    print(f"level {level}, {isolation.mechanism}; {error['message']}")
    print(f"the neighbour's {number} steps: median {middle * 1e3:.2f} ms, longest {longest * 1e3:.1f} ms")
    assert longest < 5.0
    until(lambda: not _left_of(node), about=lambda: _left_of(node))


def test_ranks_with_a_network_of_their_own_find_each_other_and_nothing_else(node: ControlledNode) -> None:
    start(node, TRAINYARD_ISOLATION="2", TRAINYARD_RANK_NETWORK="own")
    with socket.create_server(("127.0.0.1", 0)) as outside:
        address, port = outside.getsockname()
        order = ordered(node, CLOSED_NETWORK.format(address=address, port=port), "closed", ranks=2)
        node.launch(order)
        report = node.wait_for(order, "ended")
    node.wait_until_shipped(order)
    assert report["reason"] is None, node.lines(order, "stderr")
    assert sorted(node.lines(order)) == ["2", "2", "ConnectionRefusedError", "ConnectionRefusedError"]


def test_a_rank_that_takes_the_memory_of_its_control_group_is_named(node: ControlledNode) -> None:
    isolation = start(node, TRAINYARD_RANK_MEMORY="1G")
    if not isolation.cgroup:
        pytest.skip(isolation.cgroup_problem)
    order = ordered(node, HUNGRY, "hungry")
    node.launch(order)
    sentence = node.wait_for(order, "ended")["reason"]["sentence"]
    assert "took all of the 1.0 GiB that their control group allows" in sentence


def test_without_control_groups_a_process_that_takes_too_much_memory_is_refused_more(node: ControlledNode) -> None:
    start(node, TRAINYARD_RANK_MEMORY="2G", TRAINYARD_CGROUP="off")
    order = ordered(node, HUNGRY, "hungry")
    node.launch(order)
    report = node.wait_for(order, "ended")
    assert report["ranks"][0]["error"]["type"] == "MemoryError" and "ran out of memory" in report["reason"]["sentence"]


def _left_of(node: ControlledNode) -> list[str]:
    """Return the processes of the attack's user that are left."""

    user = user_of("attack")
    return [path.name for path in Path("/proc").glob("[0-9]*") if _owner(path) == user]


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1
