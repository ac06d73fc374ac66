"""Ranks whose gradients travel in many buckets, as those of a large model do, and what they tell of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.workers.training.ranks import Point
from workers.training.strategies.synchronization.protocol import ring_bytes

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
