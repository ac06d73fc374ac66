"""Of a project that encrypts, nothing that its runs logged or left lies readable in the homes of server and nodes."""

from __future__ import annotations

import hashlib
import io
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from tests.browser.conftest import tiny
from tests.up_process import Up
from tests.whole.runs import Document, Yard
from trainyard.at_rest.chunks import MAGIC
from trainyard.bundle import pack

pytestmark = [pytest.mark.slow, pytest.mark.extended]

KINDS = ("line", "caption", "text", "cell", "file")  # of what a script logs; "output" beside them
SCRIPT = """
import hashlib, os, sys, trainyard
from trainyard.formats.pictures import png
seed, number = sys.argv[1], int(sys.argv[2])
word = lambda kind, at: hashlib.sha256(f"{seed} {kind} {at}".encode()).hexdigest()[:24]
with trainyard.init() as run:
    for at in range(number):
        print("the word is", word("line", at), flush=True)
        picture = png(b"\\0\\0\\0" * 6, 2, 3, 3) + word("file", at).encode()
        story, cells = trainyard.Text(word("text", at)), trainyard.Table(["a"], [[word("cell", at)]])
        picture = trainyard.Image(picture, caption=word("caption", at))
        run.log({"loss": 1.0 / (at + 1), "picture": picture, "story": story, "cells": cells}, step=at)
        with open(os.path.join(os.environ["TRAINYARD_OUTPUT"], f"{at}.txt"), "w") as file:
            file.write(word("output", at))
"""
NUMBER = 10


def words(seed: str) -> dict[str, list[str]]:
    def word(kind: str, at: int) -> str:
        return hashlib.sha256(f"{seed} {kind} {at}".encode()).hexdigest()[:24]

    return {kind: [word(kind, at) for at in range(NUMBER)] for kind in (*KINDS, "output")}


def train(yard: Yard, seed: str, folder: Path, project: str) -> str:
    (folder / "train.py").write_text(SCRIPT)
    code = {"sha256": yard.http.post(f"/bundles?project={project}", content=pack(folder)[0]).json()["sha256"]}
    task = {"script": "train.py", "arguments": [seed, str(NUMBER)], "code": code}
    spec: Document = {"name": seed, "task": task, "resources": {"nodes": 1}, "restarts": {"max": 0}}
    return yard.submit(spec | {"project": project})


@pytest.fixture
def project(yard: Yard) -> Iterator[str]:
    """A project that encrypts and may use the nodes."""
    before = yard.get("/clusters/local")["projects"]
    yard.post("/projects", {"name": "at-rest"})
    assert yard.http.patch("/clusters/local", json={"projects": [*before, "at-rest"]}).status_code == 200
    answer = yard.http.put("/projects/at-rest/encryption", json={"encrypts": True})
    assert answer.status_code == 200 and answer.json()["storage_key"] == 1, answer.text
    yield "at-rest"
    yard.http.patch("/clusters/local", json={"projects": before})


def test_the_strings_of_a_run_are_found_nowhere_once_its_project_encrypts(
    yard: Yard, running_trainyard: Up, project: str, tmp_path: Path
) -> None:
    home = running_trainyard.home
    recipe: Document = tiny("hidden recipe", steps=6) | {"project": project, "checkpoint": {"every_steps": 3}}
    runs = [train(yard, "hidden", tmp_path, project), train(yard, "plain", tmp_path, "default"), yard.submit(recipe)]
    for run in runs:
        end = yard.wait_for_end(run)
        assert end["status"] == "SUCCEEDED", end["reason"]
    hidden, plain = words("hidden"), words("plain")
    for run, seeded in zip(runs, (hidden, plain), strict=False):
        assert yard.file(run, "9.txt").decode() == seeded["output"][9]
        lines = " ".join(line["text"] for line in yard.get(f"/runs/{run}/logs", limit=100)["items"])
        assert all(word in lines for word in seeded["line"])
        steps = yard.get(f"/runs/{run}/media/steps", name="picture")["items"]
        assert [one["meta"]["caption"] for one in steps] == seeded["caption"]
        assert yard.get(f"/runs/{run}/logs/search", q=seeded["line"][4])["items"]
    missed = {kind for kind in plain if not found(home, plain[kind])}
    assert missed == set(), "the search itself finds what is not encrypted, of each kind"
    everything = [word for seeded in hidden.values() for word in seeded]
    assert len(everything) >= 50
    deadline = time.monotonic() + 60  # its node empties the attempt's folder once the server has said that it has all
    while where := found(home, everything):
        assert time.monotonic() < deadline, where
        time.sleep(1)
    states = [path for path in home.glob(f"**/checkpoints/{runs[2]}/**/*") if path.suffix == ".safetensors"]
    assert states and all(path.read_bytes().startswith(MAGIC) for path in states), states


def found(home: Path, values: list[str]) -> list[str]:
    """Return where the values are: in files as they lie, and in what databases have in rows, unpacked."""
    here = []
    for name, data in contents(home):
        here += [f"{name}: {value}" for value in values if value.encode() in data]
    return here


def contents(home: Path) -> Iterator[tuple[str, bytes]]:
    for path in home.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        yield str(path), data
        if path.suffix == ".sqlite3":
            yield from rows(path)
        elif path.suffix == ".gz" or data[:2] == b"\x1f\x8b":
            yield str(path), zlib.decompressobj(31).decompress(data)


def rows(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the values of all rows, those of the log that is not yet in the file as well."""
    with closing(sqlite3.connect(path, timeout=30)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    data = value if isinstance(value, bytes) else str(value).encode()
                    yield f"{path} {table}", data
                    if data[:4] == b"\x28\xb5\x2f\xfd":
                        yield f"{path} {table}", zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
