"""Real ranks for the tests: processes forked from a warm one, as a node forks them, that train and report back."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import multiprocessing
import os
import socket
import warnings
from collections.abc import Callable, Collection, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from trainyard.contract.base import to_builtins
from trainyard.contract.records import Checkpoint, Facts
from trainyard.spec import RecipeSpec, parse_spec, read_spec
from workers.training.startup.warm import warm

TIMEOUT_S = 60
LEAST_S = 2.0  # of processor time in TIMEOUT_S: ranks that compute less do nothing
NOTE, FACTS = "note", "facts"
# Torch's compiler about itself: of what is exact, and of what it looks at.
COMPILER_SAYS = ("TensorFloat32 tensor cores", "The .grad attribute of a Tensor that is not a leaf")

warm()
from workers.training.communication.main import measure  # noqa: E402
from workers.training.group import RankPlace  # noqa: E402
from workers.training.main import train  # noqa: E402  # after warm, so that warm alone brings all that a rank needs

Point = tuple[str, int | None, dict[str, str], float]


class Recorder:
    """Takes points as a run of the SDK does, and keeps them."""

    def __init__(self) -> None:
        self.points: list[Point] = []

    def log(self, values: Any, step: int | None = None, labels: Any = None) -> None:
        self.points += [(name, step, dict(labels or {}), float(value)) for name, value in values.items()]

    def flush(self) -> bool:
        return True  # all of it is kept as it comes

    def report(self, record: Checkpoint | Facts) -> None:
        """Kept as a point too, so that it comes back the same way; ``notes`` finds it."""
        told = {key: json.dumps(value) for key, value in to_builtins(record).items()}
        is_facts = isinstance(record, Facts)
        self.points.append((FACTS if is_facts else NOTE, None if is_facts else record.step, told, record.at or 0.0))


def notes(points: list[Point]) -> list[dict[str, Any]]:
    """Return what was told of checkpoints, in order."""
    return [{key: json.loads(text) for key, text in told.items()} for name, _, told, _ in points if name == NOTE]


def facts(points: list[Point], name: str) -> dict[str, Any]:
    """Return the last facts of that name."""
    found: dict[str, Any] = json.loads(
        [told for kind, _, told, _ in points if kind == FACTS and told["name"] == json.dumps(name)][-1]["data"]
    )
    return found


def series(points: list[Point], name: str) -> dict[int | None, float]:
    """Return one global series as step -> value."""
    return {step: value for found, step, _, value in points if found == name}


def tiny_spec(**changes: Any) -> dict[str, Any]:
    """Return a small resolved spec for ``world`` ranks; ``changes`` go to its ``train`` part, or are ``model`` and
    whole sections (``task`` for a recipe other than the language model, ``parallel``, ``checkpoint``,
    ``early_stopping``, ``changes``)."""
    model = {"layers": 2, "width": 16, "heads": 2, "context": 16, **changes.pop("model", {})}
    task = changes.pop("task", {"recipe": "language-model", "model": model})
    world = changes.pop("world", 1)
    sections = {
        name: changes.pop(name) for name in ("parallel", "checkpoint", "early_stopping", "changes") if name in changes
    }
    train = {"steps": 10, "batch_size": 8, "warmup_steps": 2, "validate_every_steps": 5, "seed": 3, **changes}
    spec = parse_spec(
        {"name": "tiny", "resources": {"nodes": world, "accelerator": "cpu"}, "task": task, "train": train, **sections}
    )
    return spec.resolved()


def recipe_spec(**changes: Any) -> RecipeSpec:
    """Return ``tiny_spec`` as a rank reads it."""
    spec = read_spec(tiny_spec(**changes))
    assert isinstance(spec, RecipeSpec)
    return spec


def train_on(
    world_size: int,
    spec: dict[str, Any],
    *,
    setup: Callable[[], None] | None = None,
    dying: Collection[int] = (),
    begin: Callable[..., None] = train,
    **environment: str,
) -> list[list[Point]]:
    """Train ``spec`` on ``world_size`` forked ranks and return what each has logged. Raises what the first one raised.

    ``setup`` runs in each rank before it trains. Of ``dying`` ranks nothing comes back.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.workers.training.ranks"])
    port = free_port()
    pipes: list[Connection] = []
    processes = []
    for rank in range(world_size):
        mine, theirs = context.Pipe(duplex=False)
        place = RankPlace(rank, rank, world_size, world_size, 0, "127.0.0.1", port)
        process = context.Process(target=_rank, args=(place, spec, setup, begin, environment, theirs))
        process.start()
        theirs.close()
        pipes.append(mine)
        processes.append(process)
    try:
        return _results(pipes, processes, dying)
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
        for pipe in pipes:
            pipe.close()


def measure_on(world_size: int, spec: dict[str, Any], **more: Any) -> list[list[Point]]:
    """Run the communication benchmark of ``spec`` as ``train_on`` trains."""
    return train_on(world_size, spec, begin=measure, **more)


def _results(pipes: list[Connection], processes: Sequence[BaseProcess], dying: Collection[int]) -> list[list[Point]]:
    results: dict[int, list[Point]] = {}
    while len(results) < len(pipes):
        before_s = _processor_s(processes)
        ready = wait([pipe for index, pipe in enumerate(pipes) if index not in results], timeout=TIMEOUT_S)
        # On a loaded machine ranks that compute are slow; ranks that wait for each other use no processor at all.
        computed_s = _processor_s(processes) - before_s
        assert ready or computed_s > LEAST_S, f"no rank has answered for {TIMEOUT_S} s; done are {sorted(results)}"
        for pipe in ready:
            assert isinstance(pipe, Connection)
            rank = pipes.index(pipe)
            try:
                answer = pipe.recv()
            except EOFError:
                if rank not in dying:
                    raise
                answer = []
            if isinstance(answer, BaseException):
                raise answer
            results[rank] = answer
    return [results[rank] for rank in range(len(pipes))]


def _processor_s(processes: Sequence[BaseProcess]) -> float:
    """Return what the processes, and compilers that they have started, have computed so far."""
    used_s = 0.0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(process.pid)
            used_s += sum(sum(one.cpu_times()[:4]) for one in [own, *own.children(recursive=True)])
    return used_s


def _rank(
    place: RankPlace,
    spec: dict[str, Any],
    setup: Callable[[], None] | None,
    begin: Callable[..., None],
    environment: dict[str, str],
    pipe: Connection,
) -> None:
    warnings.simplefilter("error")
    for said in COMPILER_SAYS:
        warnings.filterwarnings("ignore", said)
    faulthandler.enable()  # of a rank that a signal ends one wants to know where
    os.environ.update(
        {"MASTER_ADDR": place.master_addr, "MASTER_PORT": str(place.master_port), "TRAINYARD_THREADS": "1"}
    )
    os.environ.update(environment)
    recorder = Recorder()
    try:
        if setup is not None:
            setup()
        begin(read_spec(spec), place, recorder)
    except Exception as error:
        pipe.send(error)
    else:
        pipe.send(recorder.points)
    os._exit(0)  # as a rank of a node ends: no teardown of modules under torch's threads


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
