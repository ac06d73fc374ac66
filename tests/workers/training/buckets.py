"""Ranks whose gradients travel in many buckets, as those of a large model do, what they tell of it, and what holds for
every compression of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.workers.training.parity import nothing
from tests.workers.training.ranks import Point, series
from workers.training.measuring.collectives import ring_bytes

MODEL = {"layers": 2, "width": 64, "heads": 4, "context": 16}
NUM_PARAMETERS = 2 * 256 * 64 + 2 * (4 * 64 * 64 + 2 * 64 * 128) + (2 * 2 + 1) * 64


def many_buckets() -> None:
    """Let DDP cut the gradients into a bucket for every 20 KB, and each rank say at the end how many those were and
    what its weights have come to."""
    from torch.nn.parallel import DistributedDataParallel

    from workers.training import main
    from workers.training.strategies.compression import Compression

    plain_init, plain_reduce, plain_loop = DistributedDataParallel.__init__, Compression.reduce, main.run_loop
    indices = set()

    def init(self, *arguments, **named):  # type: ignore[no-untyped-def]
        plain_init(self, *arguments, **{**named, "bucket_cap_mb": 0.02})

    def reduce(self, bucket):  # type: ignore[no-untyped-def]
        indices.add(bucket.index())
        return plain_reduce(self, bucket)

    def run_loop(training, metrics, *rest):  # type: ignore[no-untyped-def]
        plain_loop(training, metrics, *rest)
        total = sum(float(parameter.detach().double().square().sum()) for parameter in training.parameters().values())
        metrics.log({"test/buckets": len(indices), "test/weights": total})

    DistributedDataParallel.__init__ = init  # type: ignore[method-assign]
    Compression.reduce = reduce  # type: ignore[method-assign]
    main.run_loop = run_loop


def with_many_buckets(change: Callable[..., None], **named: Any) -> Callable[[], None]:
    return functools.partial(_both, change, named)


def _both(change: Callable[..., None], named: dict[str, Any]) -> None:
    many_buckets()
    change(**named)


def told(ranks: list[list[Point]], name: str) -> list[float]:
    """Return what each rank has said once."""
    return [value for points in ranks for found, _, _, value in points if found == name]


def how_many_fewer(ranks: list[list[Point]]) -> float:
    """Return how many times fewer bytes than DDP's the ranks have measured; all steps alike."""
    sent = {value for points in ranks for name, _, _, value in points if name == "rank/sent_bytes"}
    assert len(sent) == 1, sent
    return ring_bytes(4 * NUM_PARAMETERS, len(ranks)) / sent.pop()


def losses(ranks: list[list[Point]]) -> dict[int | None, float]:
    return series(ranks[0], "train/loss")


def check_restart(trained: Callable[..., list[list[Point]]]) -> None:
    """Assert that a restart with the compression's state of a checkpoint changes no loss, and without it does.

    ``trained(setup=..., steps=...)`` trains with the compression."""
    through = losses(trained(steps=6))
    again, anew = (
        losses(trained(steps=6, setup=with_many_buckets(_try_a_step_again, with_state=is_kept)))
        for is_kept in (True, False)
    )
    assert again == through
    assert anew != through


def check_throwaway_passes(trained: Callable[..., list[list[Point]]], leave_a_trace: Callable[[], None]) -> None:
    """Assert that throwaway passes change no loss, by a bit; with ``leave_a_trace``, by which a rank's compression
    forgets nothing, they do."""
    plain, more, traced = (
        losses(trained(steps=4, setup=with_many_buckets(change)))
        for change in (nothing, _five_throwaway_passes, functools.partial(_five_throwaway_passes, leave_a_trace))
    )
    assert plain == more
    assert traced != plain


def _try_a_step_again(*, with_state: bool) -> None:
    """Before step 4, do as a restart does: start the compression anew, with or without what a checkpoint holds."""
    from workers.training.strategies.compression import CompressedStep

    plain = CompressedStep.begin

    def begin(self, step):  # type: ignore[no-untyped-def]
        plain(self, step)
        if step == 4:
            state = {name: tensor.clone() for name, tensor in self.state().items()}
            self._compression._kept.clear()
            if with_state:
                self.load(state)

    CompressedStep.begin = begin  # type: ignore[method-assign]


def _five_throwaway_passes(leave_a_trace: Callable[[], None] = nothing) -> None:
    from workers.training.strategies import data_parallel

    data_parallel.num_throwaway_passes = lambda model: 5
    leave_a_trace()
