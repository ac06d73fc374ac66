"""Where in the data a training goes on: counted are the rows that every rank has taken, of a text of numbered lines."""

from __future__ import annotations

import json
import os
import signal
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.checkpoints.yard import Yard, states
from tests.workers.training.ranks import facts, series, tiny_spec, train_on
from workers.training.checkpoints.manifest import read_manifest

LINE = 8  # bytes, one token each: a row of the model's context is a line
NUM_ROWS = 192
EVERY = 6


def numbered(path: Path) -> dict[str, Any]:
    """Write a text of which NUM_ROWS lines are trained on, and return the task that reads it."""
    path.write_text("".join(f"{number:07}\n" for number in range(203)))
    model = {"layers": 1, "width": 16, "heads": 2, "context": LINE}
    return {"recipe": "language-model", "model": model, "data": {"source": "text", "location": str(path)}}


def write_rows_down(folder: Path, attempt: int, killed_at: int = 0) -> None:
    """Let each rank write down which rows it takes, read ahead by a thread; at a step all are killed."""
    from workers.training.data.batches import feed

    feed.WORTH_A_THREAD_S, feed.NUM_READS = 0.0, 1
    plain = feed.Feed.batch

    def batch(self: feed.Feed, step: int, index: int) -> Any:
        if step == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        taken = plain(self, step, index)
        rows = [int(bytes(row.tolist())) for row in taken[0]]
        with (folder / f"{attempt}-{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps([step, rows]) + "\n")
        return taken

    feed.Feed.batch = batch  # type: ignore[method-assign]


def rows_by_step(folder: Path, attempt: int) -> dict[int, list[int]]:
    found = defaultdict(list)
    for path in folder.glob(f"{attempt}-*.jsonl"):
        for line in path.read_text().splitlines():
            step, rows = json.loads(line)
            found[step] += rows
    return found


def test_every_row_comes_once_though_a_run_is_killed_and_goes_on_with_other_ranks_and_batches(tmp_path: Path) -> None:
    task, yard = numbered(tmp_path / "lines.txt"), Yard(tmp_path / "checkpoints")
    changes = {"task": task, "steps": 30, "validate_every_steps": 0, "checkpoint": {"every_steps": EVERY}}
    yard.train(
        2, batch_size=8, setup=partial(write_rows_down, tmp_path, 1, killed_at=2 * EVERY + 3), dying={0, 1}, **changes
    )
    first = rows_by_step(tmp_path, 1)
    assert max(first) > 2 * EVERY

    points = yard.train(3, batch_size=12, accumulate=2, setup=partial(write_rows_down, tmp_path, 2), **changes)[0]
    ((state, restored), *_) = states(points)
    assert state == "restored" and restored in (EVERY, 2 * EVERY)  # the second may not have been whole yet
    second = rows_by_step(tmp_path, 2)
    assert min(second) == restored + 1

    before = [row for step in range(1, restored + 1) for row in first[step]]
    last = restored + (NUM_ROWS - len(before)) // 12
    behind = [row for step in range(restored + 1, last + 1) for row in second[step]]
    assert sorted(before + behind) == list(range(NUM_ROWS))
    next_epoch = [row for step in range(last + 1, 31) for row in second[step]]
    assert len(set(next_epoch)) == len(next_epoch) > 0

    epochs = series(points, "train/epoch")
    assert epochs[restored + 1] == pytest.approx((len(before) + 12) / NUM_ROWS)
    assert epochs[last] == pytest.approx(1.0)
    assert facts(points, "data")["num_rows"] == NUM_ROWS


def change_the_shares_often(folder: Path) -> None:
    from workers.training.strategies import balance

    write_rows_down(folder, 1)
    balance.better_sizes = lambda sizes, busy_s: (6, 2) if sizes[0] < 6 else (3, 5)


def test_every_row_comes_once_though_the_shares_of_the_ranks_change(tmp_path: Path) -> None:
    spec = tiny_spec(
        world=2,
        task=numbered(tmp_path / "lines.txt"),
        steps=NUM_ROWS // 8,
        batch_size=8,
        validate_every_steps=0,
        parallel={"balance": "speed"},
    )
    pair = train_on(2, spec, setup=partial(change_the_shares_often, tmp_path))
    taken = rows_by_step(tmp_path, 1)
    assert sorted(row for rows in taken.values() for row in rows) == list(range(NUM_ROWS))
    assert {*series(pair[0], "rank/rows").values()} == {4.0, 6.0, 3.0}


def test_a_checkpoint_says_how_many_samples_came_before_it(tmp_path: Path) -> None:
    task, yard = numbered(tmp_path / "lines.txt"), Yard(tmp_path / "checkpoints")
    changes = {"task": task, "validate_every_steps": 0, "checkpoint": {"every_steps": 2}}
    yard.train(1, steps=2, batch_size=8, **changes)
    yard.train(1, steps=4, batch_size=3, **changes)
    kept = [read_manifest(yard.folder / name).state["samples"] for name in yard.names()]
    assert kept == [2 * 8, 2 * 8 + 2 * 3]
