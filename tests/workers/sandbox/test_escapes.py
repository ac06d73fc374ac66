"""A script that reads what is not its own and forks without end: refused, named, and its neighbour trains on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from workers.sandbox.node import find_isolation, user_of

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
import json, os, sys, time
found = {{}}
for path in {paths!r}:
    try:
        found[path] = open(path, "rb").read(8).hex() if os.path.isfile(path) else os.listdir(path)
    except OSError as error:
        found[path] = type(error).__name__
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


@pytest.fixture
def node(own_valkey: Valkey) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        one = ControlledNode(folder, own_valkey.url, name="attacked")
        one.start(TRAINYARD_RANK_PROCESSES=str(LIMIT))
        yield one
        one.close()


def ordered(node: ControlledNode, script: str, project: str) -> JsonObject:
    return node.order(script, spec={"project": project, "task": {"script": "train.py", "arguments": []}})


def test_an_attack_is_refused_and_named_and_the_neighbour_is_undisturbed(
    node: ControlledNode, open_folder: Path
) -> None:
    level = find_isolation(node.base).level
    if not level.is_other_user:
        pytest.skip(f"ranks are no other user here: {level}")
    database, checkpoint = node.base / "trainyard.sqlite3", node.home / "checkpoints" / "other" / "step-1.fence-1"
    database.write_text("rows")
    checkpoint.mkdir(parents=True)
    (checkpoint / "state").write_text("weights")
    stop = open_folder / "stop"
    neighbour = ordered(node, NEIGHBOUR.format(stop=str(stop)), "calm")
    node.launch(neighbour)
    node.wait_for(neighbour, "running")
    paths = [str(one) for one in (database, checkpoint / "state", node.home / "node.toml", node.home / "attempts")]
    attack = ordered(node, ATTACK.format(paths=paths, most=3 * LIMIT), "attack")
    node.launch(attack)
    report = node.wait_for(attack, "ended")
    node.wait_until_shipped(attack)
    lines = node.lines(attack)
    found = json.loads(lines[0])
    assert found.pop(str(node.home / "attempts")) in ([attack["attempt"]], "PermissionError")
    assert set(found.values()) <= {"PermissionError", "FileNotFoundError"}, found
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
    print(f"level {level}; {error['message']}")
    print(f"the neighbour's {number} steps: median {middle * 1e3:.2f} ms, longest {longest * 1e3:.1f} ms")
    assert longest < 5.0
    until(lambda: not _left_of(node), about=lambda: _left_of(node))


def _left_of(node: ControlledNode) -> list[str]:
    """Return the processes of the attack's user that are left."""

    user = user_of("attack")
    return [path.name for path in Path("/proc").glob("[0-9]*") if _owner(path) == user]


def _owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1
