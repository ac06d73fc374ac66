"""How fast the machine is just now: processes that compute the calibration's small model whenever they are asked.

They stand beside the ranks of a plan, which wait meanwhile, and share no page with them. On a machine whose speed
changes within seconds only what was timed within the same seconds can be compared.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.synchronize import Event
from pathlib import Path

import torch

from workers.training.communication.calibration import small_model

PASSES = 2  # that are timed, after one that warms the caches
READY_S = 120.0


@contextlib.contextmanager
def pacers(number: int) -> Iterator[list[str]]:
    """Yield the addresses of ``number`` processes that answer ``pace``; they end with the block."""
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as at_end:
        folder = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="trainyard-bench-")))
        addresses = [str(folder / str(index)) for index in range(number)]
        ready = [context.Event() for _ in addresses]
        for address, event in zip(addresses, ready, strict=True):
            process = context.Process(target=_answer, args=(address, event), daemon=True)
            process.start()
            at_end.callback(process.join)
            at_end.callback(process.kill)
        if not all(event.wait(READY_S) for event in ready):
            raise TimeoutError(f"a process that tells the machine's pace was not ready within {READY_S:g} s")
        yield addresses


class Pace:
    """The connections of one rank to all pacers."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._pipes: list[Connection] = [Client(address) for address in addresses]

    def __call__(self) -> float:
        """Return the seconds of the small model's pass, the mean of all pacers, which compute at once."""
        for pipe in self._pipes:
            pipe.send(None)
        seconds: list[float] = [pipe.recv() for pipe in self._pipes]
        return statistics.mean(seconds)


def _answer(address: str, ready: Event) -> None:
    torch.set_num_threads(1)
    run = small_model(torch.device("cpu")).run
    run()
    with Listener(address) as listener:
        ready.set()
        while True:  # until it is killed
            with listener.accept() as pipe, contextlib.suppress(EOFError, ConnectionError):
                while True:
                    pipe.recv()
                    run()
                    started = time.perf_counter()
                    for _ in range(PASSES):
                        run()
                    pipe.send((time.perf_counter() - started) / PASSES)
