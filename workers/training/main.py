"""The entry of a rank that runs a recipe: its data, which every rank has before any trains, and its training."""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch.distributed as dist

import trainyard
from trainyard.failures.ranks import STOPPED_WITH_ANOTHER
from trainyard.spec import CommunicationSpec, RecipeSpec, Spec
from workers.progress import marker
from workers.progress.marker import CODES, PHASE
from workers.progress.sampler import start_sampler
from workers.replicas.folders import read_plan
from workers.training import group as process_group
from workers.training.build import build
from workers.training.checkpoints.store import read_store
from workers.training.checkpoints.weights import save_weights
from workers.training.communication.main import measure
from workers.training.data.problems import OthersDataProblem
from workers.training.group import RankPlace, read_place
from workers.training.keeping import DiskCheckpoints
from workers.training.loop import Stopped, run_loop
from workers.training.measuring.phases import CHECKPOINT
from workers.training.mesh import make_mesh
from workers.training.metrics import Metrics, facts_record
from workers.training.recipes import ModelDocument, load_task
from workers.training.startup.batch_size import batch_size_found_before, find_batch_size
from workers.training.startup.learning_rate import find_learning_rate
from workers.training.startup.width_check import report_width_check

T = TypeVar("T")

PATIENCE = timedelta(days=2)  # a node may fetch and cut terabytes, where a collective gives up after half an hour


def main(spec: Spec) -> None:
    """Train what ``spec`` says, as the rank that torchrun's variables in the environment name.

    Raises ValueError, naming the field, for a spec that this world of ranks cannot train.
    """
    run = trainyard.init()
    stopped = None
    if isinstance(spec, CommunicationSpec):
        measure(spec, read_place(os.environ), run)
    elif isinstance(spec, RecipeSpec):
        stopped = train(spec, read_place(os.environ), run)
    else:
        raise ValueError("task: has no recipe")
    run.finish()
    if stopped is not None:
        if not stopped.was_asked:  # who reads why the run ended must not blame this rank
            print(STOPPED_WITH_ANOTHER, file=sys.stderr, flush=True)
        sys.stdout.flush()
        signal.raise_signal(signal.SIGTERM)  # it ends by what ended it: this is no success


def train(spec: RecipeSpec, place: RankPlace, metrics: Metrics) -> Stopped | None:
    """Do what ``main`` says, with the place as a value and the points going to ``metrics``.

    Returns where it ended when it was asked to stop. Then its checkpoint is all that it leaves.
    """
    settings = spec.train
    mesh = make_mesh(spec.parallel, place.world_size, place.rank)
    device = process_group.take_place(spec.resources.accelerator, place)
    start_sampler(marker.own(), Path.cwd())
    task = load_together(lambda: load_task(spec.task, seed=settings.seed, device=device))
    # The batch of a step is cut from the same text on every rank; another Python on a node would break that silently.
    process_group.refuse_difference("the content of task.data", task.data_digest)
    if place.rank == 0:
        metrics.report(facts_record("data", dict(task.data_facts)))
    store = read_store(os.environ)
    if place.rank == 0 and not store.candidates:  # once for a run: its first attempt has no checkpoint to go on from
        report_width_check(spec, metrics)
    found = batch_size_found_before(settings, store)
    if found is None:
        found = find_batch_size(spec, task, settings, mesh, device, place, metrics)
        found = find_learning_rate(spec, task, found, mesh, device, metrics)
    settings = found
    training = build(spec, task, settings, mesh, device)
    checkpoints = DiskCheckpoints(spec, store, metrics, read_plan(os.environ))
    with closing(training.feed):
        stopped = run_loop(training, metrics, checkpoints)
    marker.own().words[PHASE] = CODES[CHECKPOINT]  # what follows makes no step
    if stopped is not None:
        if (path := os.environ.get("TRAINYARD_STOPPED")) and place.rank == 0:  # for the supervisor
            Path(path).write_text(json.dumps({"step": stopped.step, "saved": stopped.is_saved}))
    elif output := os.environ.get("TRAINYARD_OUTPUT"):
        config: ModelDocument = {**task.describe(), "steps": settings.steps, "seed": settings.seed}
        save_weights(training, config, Path(output))
    del training, checkpoints  # nothing may hold the process group when it is left
    dist.destroy_process_group()  # not where a rank fails: its peers learn it by its death
    return stopped


# Every rank has its data, or all know who has not and why, before any of them trains.


def load_together(load: Callable[[], T]) -> T:
    """Return what ``load`` returns, once every rank of the default process group has its own.

    Raises what ``load`` raised; where another's has failed, OthersDataProblem with the words of the first such rank.
    """
    store = dist.distributed_c10d._get_default_store()  # over which the ranks have met
    keys = [f"trainyard/data/{rank}" for rank in range(dist.get_world_size())]
    try:
        loaded = load()
    except Exception as error:
        store.set(keys[dist.get_rank()], f"{error}" or type(error).__name__)
        raise
    store.set(keys[dist.get_rank()], "")
    for rank, key in enumerate(keys):
        # One after the other: a rank that waits for all at once would not learn of one that has failed.
        store.wait([key], PATIENCE)
        if trouble := store.get(key).decode():
            raise OthersDataProblem(f"rank {rank}: {trouble}")
    return loaded
