"""What a server in service does with what is far too large: it says so, and its memory stays what it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.up_process import Up
from tests.whole.runs import Yard

PART = b" " * 1024 * 1024
NUM_PARTS = 100


def peak_bytes(pid: int) -> int:
    """The most that the process ever held in memory."""
    (found,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found) * 1024


def parts() -> Iterator[bytes]:
    for _ in range(NUM_PARTS):
        yield PART


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_batch_of_100_megabytes_is_refused_and_never_held(
    yard: Yard, running_trainyard: Up, is_announced: bool
) -> None:
    pid = running_trainyard.processes()["web"]
    yard.get("/runs")
    before = peak_bytes(pid)
    headers = {"Content-Length": str(NUM_PARTS * len(PART))} if is_announced else {}
    answer = yard.http.post("/runs/nothing/points", content=parts(), headers=headers)
    assert answer.status_code == 413, answer.text
    assert answer.json()["title"] == "Too large"
    assert peak_bytes(pid) - before < 30 * 1024 * 1024
    yard.get("/runs")
