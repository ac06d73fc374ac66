"""A member's script and a member's dataset, turned against the Trainyard that runs them: each file is asked for."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.whole.runs import Yard
from trainyard.bundle import pack
from workers.sandbox.node import find_isolation
from workers.sandbox.process import Mechanism

SCRIPT = """
import json, os, signal, sys
from pathlib import Path

def tried(name, act):
    try:
        found = act()
    except (OSError, ValueError):
        return
    got.append([name, str(found)[:60]])

def ptrace(pid):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, int(pid), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no")
    libc.ptrace(17, int(pid), 0, 0)
    return "seized"

def connect(path):
    import socket
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return "connected"

got = []
paths, pids = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for path in paths:
    tried(path, lambda: sorted(os.listdir(path)) if os.path.isdir(path) else open(path, "rb").read())
    tried("connect " + path, lambda: connect(path))
    tried("write " + path, lambda: open(path, "ab").close() or "opened" if not os.path.isdir(path) else int("x"))
for pid in pids:
    for name in ("environ", "mem", "maps", "fd", "root", "cwd"):
        there = f"/proc/{pid}/{name}"
        tried(there, lambda: os.listdir(there) if os.path.isdir(there) else open(there, "rb").read(1))
    tried(f"ptrace {pid}", lambda: ptrace(pid))
    tried(f"signal {pid}", lambda: os.kill(int(pid), 0) or "may be killed")
Path(os.environ["TRAINYARD_OUTPUT"], "got.json").write_text(json.dumps(got))
"""


@pytest.fixture(autouse=True)
def _is_isolated(yard: Yard) -> None:
    if find_isolation(yard.up.home).mechanism == Mechanism.NONE:
        pytest.skip("this machine allows neither another user nor a namespace")


def secrets_of(home: Path) -> list[Path]:
    """Every file and folder of the home that a script must not reach."""
    found = [home / name for name in ("client.toml", "secret_key", "valkey", "valkey/valkey.sock", "logs", "bundles")]
    found += [*home.glob("*.sqlite3*"), *home.glob("nodes/*/node.toml"), *home.glob("nodes/*/attempts")]
    found += [*home.glob("nodes/*/attempts/*/output"), *home.glob("nodes/*/cache/bundles"), Path("/etc/shadow")]
    return [path for path in found if path.exists()]


def submit(yard: Yard, folder: Path, task: dict[str, Any]) -> str:
    (folder / "code").mkdir(exist_ok=True)
    (folder / "code" / "train.py").write_text(SCRIPT)
    code = yard.http.post("/bundles", content=pack(folder / "code")[0]).json()["sha256"]
    return yard.submit(
        {"name": "attack", "task": {"script": "train.py", "code": {"sha256": code}, **task}, "restarts": {"max": 0}}
    )


@pytest.mark.parametrize("task", [{}, {"python": sys.executable}], ids=["warm", "cold"])
def test_a_script_reaches_no_file_and_no_process_of_the_server(
    yard: Yard, tmp_path: Path, task: dict[str, Any]
) -> None:
    first = submit(yard, tmp_path, {"arguments": ["[]", "[]"]})
    assert yard.wait_for_end(first)["status"] == "SUCCEEDED"  # another attempt's folder is there to be read
    paths = [str(path) for path in secrets_of(yard.up.home)]
    assert len(paths) > 10
    pids = [one.pid for one in yard.up.descendants()]
    run = submit(yard, tmp_path, {"arguments": [json.dumps(paths), json.dumps(pids)], **task})
    assert yard.wait_for_end(run)["status"] == "SUCCEEDED"
    got = json.loads(yard.file(run, "got.json"))
    allowed = set()
    if os.getuid() != 0:  # the same user: it may end the others, but learns nothing of them
        allowed = {f"signal {pid}" for pid in pids}
    attempts = {path for path in paths if path.endswith("/attempts")}  # of its own node it sees its own folder there
    left = [one for one in got if one[0] not in allowed and not (one[0] in attempts and one[1].count(",") == 0)]
    assert left == []


@pytest.mark.parametrize("way", ["path", "link", "url"])
def test_a_dataset_in_the_home_is_refused(yard: Yard, open_folder: Path, way: str) -> None:
    secret = yard.up.home / "client.toml"
    (open_folder / "link.txt").symlink_to(secret)
    location = {"path": str(secret), "link": str(open_folder / "link.txt"), "url": f"file://{secret}"}[way]
    answer = yard.http.post("/datasets", json={"name": f"home-{way}", "source": "text", "location": location})
    if answer.status_code == 422:
        assert "Trainyard's own" in answer.text
        return
    dataset = answer.json()["id"]
    while (found := yard.get(f"/datasets/{dataset}"))["state"] in ("waiting", "checking"):
        pass
    assert found["state"] == "failed" and "Trainyard's own" in found["problem"]
    yard.http.delete(f"/datasets/{dataset}")
