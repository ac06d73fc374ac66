"""Runs of scripts that were written for a system of somebody else, in environments that nodes install for them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.browser.conftest import packed
from tests.up_process import ROOT
from tests.whole.runs import Document, Yard

LIMIT_S = 1800.0  # an environment is built, and operators are compiled, on two cores that have other work too
EXAMPLES = ROOT / "examples"


def submit(yard: Yard, example: str, folder: Path, texts: dict[str, str] | None = None, **changes: Any) -> str:
    """Launch ``examples/EXAMPLE.yaml`` with its code and ``texts`` beside it, by file name, copied to ``folder``. Of
    ``changes``, ``task`` is merged with the example's; None removes a section."""
    document: Document = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
    code = folder / "code"
    shutil.copytree(EXAMPLES / document["task"]["code"], code, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in (texts or {}).items():
        (code / name).write_text(text)
    stored = yard.http.post("/bundles", content=packed(code))
    assert stored.status_code == 201, stored.text
    shutil.rmtree(code)
    task = {**document["task"], **changes.pop("task", {}), "code": {"sha256": stored.json()["sha256"]}}
    merged = {**document, **changes, "task": task}
    return yard.submit({name: section for name, section in merged.items() if section is not None})


def run(yard: Yard, example: str, folder: Path, texts: dict[str, str] | None = None, **changes: Any) -> str:
    """As ``submit``; wait until it has succeeded."""
    run_id = submit(yard, example, folder, texts, **changes)
    ended = yard.wait_for_end(run_id, LIMIT_S)
    assert ended["status"] == "SUCCEEDED", (ended["reason"], lines(yard, run_id)[-40:])
    return run_id


def lines(yard: Yard, run_id: str, **query: Any) -> list[str]:
    """Return the last lines of the run's log, those of all attempts."""
    return [one["text"] for one in yard.get(f"/runs/{run_id}/logs", limit=5000, tail=True, **query)["items"]]


def losses(texts: list[str]) -> dict[int, list[float]]:
    """Return the losses by step in lines such as ``step 3/20  loss 2.301``: more than one where attempts overlap."""
    found: dict[int, list[float]] = {}
    for text in texts:
        if match := re.match(r"step (\d+)/\d+ +loss ([\d.]+)", text):
            found.setdefault(int(match[1]), []).append(float(match[2]))
    return found


def files(yard: Yard, run_id: str) -> set[str]:
    return {one["path"] for one in yard.get(f"/runs/{run_id}/files")["items"]}
