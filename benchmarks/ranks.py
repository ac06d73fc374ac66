"""Ranks of a training in processes of their own, for benchmarks that look inside them: one thread each."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import torch

from benchmarks.stack import free_port
from trainyard.contract.base import JsonObject
from trainyard.spec import RecipeSpec, parse_spec
from workers.training.group import RankPlace

TIMEOUT_S = 900.0
Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")


def gpt_spec(world: int, *, parallel: JsonObject | None = None, accelerator: str = "cpu", **train: Any) -> RecipeSpec:
    """Return the spec of examples/hello-gpt.yaml for ``world`` ranks; ``train`` are changes to that part,
    ``model`` one of them to the model's sizes."""
    model = {"layers": 4, "width": 128, "heads": 4, "context": 128, **train.pop("model", {})}
    document = {
        "name": "bench",
        "resources": {"nodes": world, "accelerator": accelerator},
        "task": {"recipe": "language-model", "model": model},
        "parallel": parallel or {},
        "train": {"batch_size": 32, **train},
    }
    return recipe_spec(document)


def recipe_spec(document: object) -> RecipeSpec:
    spec = parse_spec(document)
    assert isinstance(spec, RecipeSpec)
    return spec


def on_ranks(
    world: int, function: Callable[[RankPlace, *Arguments], Answer], *arguments: *Arguments, is_forked: bool = False
) -> list[Answer]:
    """Return what ``function(place, *arguments)`` returns on each of ``world`` ranks, in a process each.

    It must stand at the top of a module. ``is_forked``: from a warm process, as a node forks them, so that what they
    share takes memory once. Raises what a rank has raised, and EOFError for one that died.
    """
    context: ForkServerContext | SpawnContext = multiprocessing.get_context("spawn")
    if is_forked:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.warmed", function.__module__])
    port = free_port()
    with contextlib.ExitStack() as at_end:
        folder = at_end.enter_context(tempfile.TemporaryDirectory(prefix="trainyard-bench-"))
        pipes = []
        for rank in range(world):
            mine, theirs = context.Pipe(duplex=False)
            spool = Path(folder) / f"spool-{rank}"
            process = context.Process(target=_rank, args=(rank, world, port, spool, function, arguments, theirs))
            process.start()
            at_end.callback(process.join)
            at_end.callback(process.kill)
            theirs.close()
            pipes.append(mine)
        return [_answer(pipe) for pipe in pipes]


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(TIMEOUT_S):
        raise TimeoutError(f"a rank has not answered within {TIMEOUT_S:g} s")
    answer = pipe.recv()
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _rank(
    rank: int,
    world: int,
    port: int,
    spool: Path,
    function: Callable[[RankPlace, *Arguments], object],
    arguments: tuple[*Arguments],
    pipe: Connection,
) -> None:
    os.environ.update(
        {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "TRAINYARD_THREADS": "1"}
    )
    os.environ["TRAINYARD_SPOOL"] = str(spool)
    torch.set_num_threads(1)
    try:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            answer = function(RankPlace(rank, rank, world, world, 0, "127.0.0.1", port), *arguments)
    except Exception as error:
        answer = error
    pipe.send(answer)
    os._exit(0)  # as a rank of a node ends: no teardown of modules under torch's threads
