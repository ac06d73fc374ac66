"""What a script can reach of its node: attacks, each from a real rank, and the levels of isolation one by one."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers import short_folder
from tests.workers.control import ControlledNode
from workers.sandbox.node import FEWER_USERS, USERS, Isolation, closed_to_others, find_isolation, user_of
from workers.sandbox.process import Mechanism, Sandbox, enter

ATTACK = """
import gc, json, os, sys
from pathlib import Path

wanted, turned_key = sys.argv[1:-1], sys.argv[-1].encode()
got = []
for path in wanted:
    try:
        got.append(("read", path, len(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())))
    except OSError:
        pass
for process in Path("/proc").glob("[0-9]*"):
    if process.name == str(os.getpid()):
        continue
    for name in ("environ", "mem", "root", "cwd", "fd"):
        try:
            there = process / name
            if "ty-" in (process / "comm").read_text() and "rank" not in (process / "comm").read_text():
                os.listdir(there) if there.is_dir() else open(there, "rb").close()
                got.append((name, process.name, (process / "comm").read_text()))
        except OSError:
            pass
if any(type(one).__name__ in ("Contact", "Supervisor", "NodeConfig") for one in gc.get_objects()):
    got.append(("memory", "an object that holds the node's key", 0))
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        span, rights = line.split()[:2]
        if "w" not in rights or "[v" in line:
            continue
        start, end = (int(part, 16) for part in span.split("-"))
        try:
            memory.seek(start)
            found = memory.read(end - start)
        except (OSError, ValueError, OverflowError):
            continue
        if turned_key[::-1] in found:  # backwards, so that this script itself is no find
            got.append(("memory", "the node's key", 0))
print(json.dumps(got))
"""


def attack(node: ControlledNode, paths: list[Path], **task: Any) -> list[list[Any]]:
    words = [*map(str, paths), node.key[::-1]]
    order = node.order(ATTACK, spec={"task": {"script": "train.py", "arguments": words, **task}})
    node.launch(order)
    report = node.wait_for(order, "ended")
    assert report["reason"] is None, node.lines(order, "stderr")
    node.wait_until_shipped(order)
    got: list[list[Any]] = json.loads(node.lines(order)[0])
    return got


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_a_rank_reaches_nothing_of_its_nodes(calm_node: ControlledNode, task: dict[str, Any]) -> None:
    if find_isolation(calm_node.base).mechanism == Mechanism.NONE:
        pytest.skip("this machine allows neither another user nor a namespace")
    other = calm_node.order("print('mine')")
    calm_node.launch(other)
    calm_node.wait_for(other, "ended")
    theirs = calm_node.folder(other["attempt"])
    home = calm_node.home
    there = [home / "node.toml", home / "cache" / "bundles", theirs.output, theirs.logs / "rank-0.stdout", theirs.path,
             calm_node.base / "calm.log", Path("/etc/shadow"), Path("/root")]  # fmt: skip
    got = [one for one in attack(calm_node, there, **task) if one[1] != "/root" or one[2] > 1]
    # Root's home is there where Python is in it, and nothing else in it is.
    assert got == []


def test_what_a_rank_links_to_is_not_shipped_as_its_output(calm_node: ControlledNode) -> None:
    """The supervisor may read what the rank may not: it opens what the rank writes, and no links that it lays."""
    secret = calm_node.home / "node.toml"
    script = f"""
import os, time
from pathlib import Path
logs = Path(os.environ["TRAINYARD_SPOOL"]).parent / "logs"
print("first", flush=True)
time.sleep(1)
for name in ("rank-0.stdout", "rank-0.stderr", "rank-0.error.json"):
    (logs / name).unlink(missing_ok=True)
    (logs / name).symlink_to({str(secret)!r})
time.sleep(1)
raise SystemExit(3)
"""
    order = calm_node.order(script)
    calm_node.launch(order)
    report = calm_node.wait_for(order, "ended")
    calm_node.wait_until_shipped(order)
    text = json.dumps([report, calm_node.lines(order), calm_node.lines(order, "stderr")])
    assert "first" in text and calm_node.key not in text and "redis_url" not in text


def in_cell(mechanism: Mechanism, home: Path, own: Path, act: Callable[[], object]) -> str:
    """Call ``act`` in a child that is shut in; return what it returned, or the error's name."""
    return in_sandbox(Isolation(mechanism, (str(home),)).sandbox("vision", own=[own]), act)


def in_sandbox(sandbox: Sandbox, act: Callable[[], object]) -> str:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            enter(sandbox)
            answer = str(act())
        except OSError as error:
            answer = type(error).__name__
        except BaseException:
            answer = traceback.format_exc()
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return answer


@pytest.mark.parametrize("level", [Mechanism.USER_AND_NAMESPACE, Mechanism.USER, Mechanism.NAMESPACE])
def test_each_mechanism_keeps_the_home_and_leaves_the_own_folder(level: Mechanism) -> None:
    if level.is_other_user and os.getuid() != 0:
        pytest.skip("only root becomes another user")
    with short_folder("ty-sandbox-") as folder:
        folder.chmod(0o755)
        home = folder / "home"
        own = home / "nodes" / "one" / "mine"
        own.mkdir(parents=True)
        home.chmod(0o700)
        (home / "secret").write_text("s")
        (home / "secret").chmod(0o600)

        def look(path: Path) -> str:
            return in_cell(level, home, own, lambda: path.read_text())

        if in_cell(level, home, own, lambda: "in") != "in":
            pytest.skip("this machine does not allow it")
        assert look(home / "secret") in ("FileNotFoundError", "PermissionError")
        assert in_cell(level, home, own, lambda: (own / "made").write_text("x")) == "1" and (own / "made").exists()
        assert look(Path(f"/proc/{os.getpid()}/environ")) == "PermissionError"
        root = Path(f"/proc/{os.getpid()}/root")
        assert in_cell(level, home, own, lambda: [*root.iterdir()]) == "PermissionError"
        capabilities = in_cell(level, home, own, lambda: Path("/proc/self/status").read_text())
        assert "CapEff:\t0000000000000000" in capabilities and "NoNewPrivs:\t1" in capabilities
        code = Path(enter.__code__.co_filename)
        assert in_cell(level, home, own, lambda: code.open("a")) in ("OSError", "PermissionError")
        if level.has_namespace:
            assert in_cell(level, home, own, lambda: [one.name for one in home.iterdir()]) == "['nodes']"
        if level == Mechanism.USER_AND_NAMESPACE:
            assert in_cell(level, home, own, lambda: pwd.getpwuid(os.getuid()).pw_name) == "project"
            assert in_cell(level, home, own, lambda: os.open("/etc/passwd", os.O_WRONLY)) in (
                "OSError",
                "PermissionError",
            )


@pytest.mark.parametrize("level", [Mechanism.USER_AND_NAMESPACE, Mechanism.NAMESPACE])
def test_a_file_of_another_run_in_tmp_is_not_seen(level: Mechanism) -> None:
    if level.is_other_user and os.getuid() != 0:
        pytest.skip("only root becomes another user")
    with short_folder("ty-sandbox-") as folder:
        folder.chmod(0o755)
        own, data, stray = folder / "home" / "attempt" / "tmp", folder / "rows.csv", Path(f"/tmp/{folder.name}-stray")
        own.mkdir(parents=True)
        data.write_text("a")
        isolation = Isolation(level, (str(folder / "home"),), has_own_tmp=True)

        def look(act: Callable[[], object]) -> str:
            return in_sandbox(isolation.sandbox("vision", own=[own], shown=[data], temporary=own), act)

        if look(lambda: "in") != "in":
            pytest.skip("this machine does not allow it")
        try:
            stray.write_text("of another run")
            stray.chmod(0o644)
            assert look(stray.read_text) == "FileNotFoundError"
            assert look(lambda: Path("/var/tmp/mine").write_text("x")) == "1" and (own / "mine").read_text() == "x"
            assert look(Path("/tmp/mine").read_text) == "x", "what the next process of the attempt finds"
            assert look(data.read_text) == "a", "named: shown"
            assert look(lambda: data.open("a")) in ("OSError", "PermissionError")
        finally:
            stray.unlink(missing_ok=True)
        # A link that a rank laid where a mount is to be made leads nothing elsewhere, although we may be root here.
        aim = folder / "aim"
        aim.mkdir()
        aim.chmod(0o777)
        top = own.joinpath(*folder.relative_to("/tmp").parts[:1])
        shutil.rmtree(top)
        top.symlink_to(aim)
        assert look(lambda: "in") in ("NotADirectoryError", "OSError") and list(aim.iterdir()) == []


def test_each_project_has_a_user_of_its_own() -> None:
    numbers = {user_of(name) for name in ("default", "vision", "speech")}
    first, count = USERS if user_of("x") >= USERS[0] else FEWER_USERS
    assert len(numbers) == 3 and all(first <= number < first + count for number in numbers)


def test_what_others_may_not_read_is_named(tmp_path: Path) -> None:
    with short_folder("ty-open-") as folder:
        data = folder / "rows.csv"
        data.write_text("a\n")
        data.chmod(0o644)
        assert closed_to_others(data) == closed_to_others(folder / "nothing") == folder, "whatever is behind it"
        folder.chmod(0o755)
        assert closed_to_others(data) is None
        data.chmod(0o600)
        assert closed_to_others(data) == data
        link = folder / "link"
        link.symlink_to(tmp_path)
        assert closed_to_others(link) is not None
    assert closed_to_others(folder / "nothing") is None
