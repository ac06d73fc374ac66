"""A rank that is slowed on purpose is named, and no other; its run goes on without its node."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.browser.conftest import tiny
from tests.whole.runs import Document, Yard, until
from tests.whole.test_recovery import said


def endless(name: str) -> Document:
    """A run of two ranks whose steps are work enough to be compared."""
    spec: Document = tiny(name, steps=1_000_000, validate_every_steps=0, batch_size=32)
    spec["task"]["model"] = {"layers": 2, "width": 64, "heads": 2, "context": 64}
    spec["resources"] = {"nodes": 1, "processes_per_node": 2}
    spec["checkpoint"] = {"every_steps": 1000, "keep": 2}
    return spec


@contextlib.contextmanager
def slowed(pid: int, stopped_s: float = 0.06, running_s: float = 0.02) -> Iterator[None]:
    """Let the process run for a part of the time only."""
    is_over = threading.Event()

    def alternate() -> None:
        while not is_over.is_set():
            os.kill(pid, signal.SIGSTOP)
            time.sleep(stopped_s)
            os.kill(pid, signal.SIGCONT)
            time.sleep(running_s)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.extended  # tests/runs has hundreds of made-up slow ranks
@pytest.mark.timeout(300)
def test_a_rank_that_is_slowed_on_purpose_is_named_and_no_other(yard: Yard) -> None:
    run = yard.submit(endless("slowed"))
    yard.wait_for_step(run, 100)
    ranks = [rank for one in yard.get(f"/runs/{run}/attempts")["items"][-1]["placements"] for rank in one["ranks"]]
    with slowed(ranks[1]["pid"]):
        until(lambda: said(yard, run, "straggler") != [], seconds=150)
        scores = yard.get(f"/runs/{run}/ranks/scores")
    (sentence, *more) = said(yard, run, "straggler")
    assert sentence.startswith("Rank 1 on ") and "as slow as the other" in sentence and more == []
    assert [one["rank"] for one in scores["slow"]] == [1]
    grid = yard.get(f"/runs/{run}/ranks/grid", phase="own", columns=100)
    assert [one["rank"] for one in grid["ranks"]] == [0, 1] and len(grid["microseconds"][0]) > 10
    until(lambda: said(yard, run, "straggler-over") != [], seconds=90)
    assert yard.get(f"/runs/{run}/ranks/scores")["slow"] == []
    yard.post(f"/runs/{run}/stop")
    yard.wait_for_end(run)
