"""Every rank has its data, or all know who has not and why, before any of them trains."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from workers.training.data.problems import OthersDataProblem

T = TypeVar("T")

PATIENCE = timedelta(days=2)  # a node may fetch and cut terabytes, where a collective gives up after half an hour


def load_together(load: Callable[[], T]) -> T:
    """Return what ``load`` returns, once every rank of the default process group has its own.

    Raises what ``load`` raised; where another's has failed, OthersDataProblem with the words of the first such rank.
    """
    try:
        loaded = load()
    except Exception as error:
        _publish(f"{error}" or type(error).__name__)
        raise
    _publish("")
    for rank in range(dist.get_world_size()):
        # One after the other: a rank that waits for all at once would not learn of one that has failed.
        if trouble := _read(rank):
            raise OthersDataProblem(f"rank {rank}: {trouble}")
    return loaded


def _publish(trouble: str) -> None:
    _store().set(_key(dist.get_rank()), trouble)


def _read(rank: int) -> str:
    store = _store()
    store.wait([_key(rank)], PATIENCE)
    trouble: bytes = store.get(_key(rank))
    return trouble.decode()


def _key(rank: int) -> str:
    return f"trainyard/data/{rank}"


def _store() -> Any:
    """Return the store over which the ranks have met."""
    return dist.distributed_c10d._get_default_store()
