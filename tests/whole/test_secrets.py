"""A run gets its secrets, and nobody finds them: not in logs, files, databases, Valkey or process lists."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from tests.up_process import OURS, ROOT, Up
from tests.whole.runs import Document, Yard
from trainyard.bundle import pack

pytestmark = pytest.mark.extended

SCRIPT = """
import hashlib, os, subprocess, sys, time
value = os.environ["TOKEN"]
half = len(value) // 2
sys.stdout.write("begin " + value[:half]); sys.stdout.flush(); time.sleep(0.5)
sys.stdout.write(value[half:] + " end\\n"); sys.stdout.flush()
os.write(1, b"raw " + value.encode()[:3]); time.sleep(0.2); os.write(1, value.encode()[3:] + b"\\n")
subprocess.run([sys.executable, "-c", "import os; print('child', os.environ['TOKEN'])"])
print("file", open(os.environ["KEY_FILE"]).read())
print("digests", hashlib.sha256(value.encode()).hexdigest(),
      hashlib.sha256(open(os.environ["KEY_FILE"]).read().encode()).hexdigest(), flush=True)
time.sleep(3)
raise ValueError("the hub refused " + value)
"""


def trainyard(up: Up, *words: str, value: str) -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith(OURS)}
    command = [sys.executable, "-m", "trainyard", *words]
    environment["TRAINYARD_HOME"] = str(up.home)
    subprocess.run(command, cwd=ROOT, env=environment, input=value, text=True, timeout=60, check=True)


def bundle(yard: Yard, folder: Path) -> Document:
    (folder / "train.py").write_text(SCRIPT)
    return {"sha256": yard.http.post("/bundles", content=pack(folder)[0]).json()["sha256"]}


@pytest.mark.parametrize("python", ["", sys.executable], ids=["warm", "cold"])
def test_a_secret_reaches_the_ranks_and_is_nowhere_else(
    yard: Yard, running_trainyard: Up, python: str, tmp_path: Path
) -> None:
    up = running_trainyard
    token, key = f"hf_{secrets.token_urlsafe(24)}", secrets.token_urlsafe(30)
    trainyard(up, "secrets", "set", "HUB_TOKEN", "--project", "default", value=f"{token}\n")
    trainyard(up, "secrets", "set", "OWN_KEY", value=f"{key}\n")
    task = {"script": "train.py", "code": bundle(yard, tmp_path), "python": python}
    task["secrets"] = ["TOKEN=HUB_TOKEN", "KEY_FILE=file:mine:OWN_KEY"]
    run_id = yard.submit({"name": "secretive", "task": task, "resources": {"nodes": 1}, "restarts": {"max": 0}})
    wanted = [token, key, base64.b64encode(token.encode()).decode()]

    def lines() -> list[str]:
        return [line["text"] for line in yard.get(f"/runs/{run_id}/logs", limit=1000)["items"]]

    yard.wait_for(lambda: any("digests" in line for line in lines()), lambda: f"{yard.sentence(run_id)} {lines()}")
    assert found_in_processes(wanted) == []
    end = yard.wait_for_end(run_id)
    assert end["status"] == "FAILED" and "ValueError" in str(end["reason"])
    shown = lines()
    assert {"begin *** end", "raw ***", "child ***", "file ***"} <= set(shown), shown
    digests = " ".join(hashlib.sha256(one.encode()).hexdigest() for one in (token, key))
    assert f"digests {digests}" in shown
    time.sleep(2)  # what is on its way to the disk
    assert found_in_files(up.home, wanted) == []
    assert found_in_valkey(up.home, wanted) == []
    answers = [yard.http.get(f"/runs/{run_id}{path}").text for path in ("", "/attempts", "/events", "/secrets")]
    assert not any(value in text for text in [*answers, yard.http.get("/audit?limit=200").text] for value in wanted)
    uses = yard.get(f"/runs/{run_id}/secrets")["items"]
    assert [(use["name"], use["personal"]) for use in uses] == [("HUB_TOKEN", False), ("OWN_KEY", True)]
    assert yard.get("/audit/verify")["intact"]


def test_a_row_that_was_edited_in_the_database_is_named(yard: Yard, running_trainyard: Up) -> None:
    trainyard(running_trainyard, "secrets", "set", "EDITED", "--project", "default", value="some value")
    row = yard.get("/audit", limit=1)["items"][0]
    database = sqlite3.connect(running_trainyard.home / "trainyard.sqlite3", timeout=30)
    try:
        with pytest.raises(sqlite3.DatabaseError, match="not changed"):
            database.execute("UPDATE runs_auditentry SET actor = 'somebody'")
        trigger = database.execute("SELECT sql FROM sqlite_master WHERE name = 'audit_no_update'").fetchone()[0]
        for actor in ("somebody", row["actor"]):
            with database:
                database.execute("DROP TRIGGER audit_no_update")
                change = "UPDATE runs_auditentry SET actor = ? WHERE sequence = ?"
                database.execute(change, (actor, row["sequence"]))
                database.execute(trigger)
            verdict = yard.get("/audit/verify")
            if actor == "somebody":
                assert verdict["fault"]["sequence"] == row["sequence"]
                print(verdict["fault"]["sentence"])
        assert verdict["intact"]
    finally:
        database.close()


def found_in_files(home: Path, values: list[str]) -> list[str]:
    found = []
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            found += [f"{path}: {value}" for value in values if value.encode() in data]
    return found


def found_in_valkey(home: Path, values: list[str]) -> list[str]:
    found = []
    with redis.Redis(unix_socket_path=str(next(home.rglob("valkey.sock")))) as client:
        for name in client.scan_iter():
            data = client.dump(name) or b""
            found += [f"{name!r}: {value}" for value in values if value.encode() in data]
    return found


def found_in_processes(values: list[str]) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        found += [f"{path}: {value}" for value in values if value.encode() in data]
    return found
