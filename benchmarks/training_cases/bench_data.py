"""How much of a step a rank waits for its batch, for each built-in recipe as its example has it; beside the same steps
fed by torch's own DataLoader over the same rows, one by one, in the rank and in a process of its own."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks import goals
from benchmarks.ranks import on_ranks, recipe_spec
from benchmarks.table import Row, scaled, spread_of
from benchmarks.training import prepared
from trainyard.contract.base import JsonObject
from trainyard.spec import RecipeSpec, load_spec_file
from workers.training import group as process_group
from workers.training.build import Training
from workers.training.data.batches.feed import positions
from workers.training.data.batches.order import Batch
from workers.training.group import RankPlace
from workers.training.loop import settle, take_step
from workers.training.recipes import Task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WORLD = 2
WARM_STEPS = 10
BLOCK = 25  # steps
QUICK_BLOCK = 200  # of a recipe that takes few milliseconds a step, and reads for many of them at once
TURNS = 5  # blocks of each feed
BPE = {"source": "python-stdlib", "tokens": "bpe", "vocabulary": 1024}
RECIPES: dict[str, tuple[str, dict[str, Any], int]] = {
    "language-model, bytes": ("hello-gpt.yaml", {}, BLOCK),
    "language-model, BPE": ("hello-gpt.yaml", BPE, BLOCK),
    "image-classifier, digits": ("digits.yaml", {}, BLOCK),
    "tabular, breast-cancer": ("breast-cancer.yaml", {}, QUICK_BLOCK),
}


class Shares(NamedTuple):
    """Percent of the steps' time that a rank waited, by block."""

    ours: list[float]
    loader: list[float]
    worker: list[float]


def rows() -> list[Row]:
    return [row_of(name, *example) for name, example in RECIPES.items()]


def row_of(name: str, file: str, data: JsonObject, block: int) -> Row:
    num_turns = scaled(TURNS, least=2)
    document = load_spec_file(EXAMPLES / file)
    document["task"]["data"] = {**document["task"]["data"], **data}
    document["resources"] = {"nodes": WORLD, "accelerator": "cpu"}
    document["train"]["steps"] = WARM_STEPS + num_turns * block
    ranks = on_ranks(WORLD, rank_shares, recipe_spec(document), num_turns, block)
    # A step waits for the slower rank: the one that waits longest for its data counts. Means, since not every block has
    # one of the steps that read for many.
    ours, loader, worker = (max((found[which] for found in ranks), key=statistics.fmean) for which in range(3))
    return Row(
        f"waiting for data, {name}, {WORLD} ranks", statistics.fmean(ours), "% of the step",
        statistics.fmean(loader), "DataLoader", goal=goals.DATA_WAIT, spread=spread_of(ours),
        others={"DataLoader with a process that reads": statistics.fmean(worker)},
        note=f"{num_turns} blocks of {block} steps each",
    )  # fmt: skip


def rank_shares(place: RankPlace, spec: RecipeSpec, num_turns: int, block: int) -> Shares:
    """In a rank: let the three feeds take turns over the same steps."""
    process_group.join(place, torch.device("cpu"))
    training = prepared(spec, place)
    settle(training)
    own = training.feed.batch
    loaders = [iter(loader_of(training, num_workers=count)) for count in (0, 1)]
    feeds = [own, *(batches_of(loader) for loader in loaders)]
    counts = [itertools.count(1) for _ in feeds]  # each goes on where it was: a jump would drop what was read ahead
    for feed, steps in zip(feeds, counts, strict=True):
        share_of(training, feed, steps, WARM_STEPS)
    shares = Shares([], [], [])
    for _ in range(num_turns):
        for feed, steps, found in zip(feeds, counts, shares, strict=True):
            found.append(share_of(training, feed, steps, block))
    training.feed.close()
    return shares


def share_of(training: Training, feed: Callable[[int, int], Batch], steps: Iterator[int], num_steps: int) -> float:
    """Return which percentage of so many steps was spent waiting for the batches of ``feed``."""
    training.feed.batch = feed  # type: ignore[method-assign,assignment]
    waited, started = 0.0, time.perf_counter()
    for step in itertools.islice(steps, num_steps):
        waited += take_step(training, step).data_time_s
    return 100 * waited / (time.perf_counter() - started)


class Samples(Dataset[Batch]):
    """The task's training rows, one by one, as one writes a data set for torch."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __len__(self) -> int:
        return self._task.num_train_rows

    def __getitem__(self, position: int) -> Batch:
        inputs, targets = self._task.train_batch(slice(position, position + 1))
        return inputs[0], targets[0]


def loader_of(training: Training, num_workers: int) -> DataLoader[Batch]:
    """Return a loader of this rank's samples, without an end."""
    task, share, size = training.task, training.share, training.settings.batch_size
    wanted = (positions(start, share, 0) for start in itertools.count(0, size))
    batches = ([at % task.num_train_rows for at in range(one.start, one.stop)] for one in wanted)
    return DataLoader(Samples(task), batch_sampler=batches, num_workers=num_workers)


def batches_of(loader: Iterator[Batch]) -> Callable[[int, int], Batch]:
    return lambda step, index: next(loader)
