"""Bytes that this process sends to other ranks, and time that it waits for them, under every strategy.

Every collective that torch starts from Python (by a strategy of ours, FSDP2, a pipeline's schedule, DTensor) goes
through a few methods of its process groups, and is waited for by two functions. ``watch`` puts a counter around these,
once in a process, without the strategies' help. DDP's buckets, which torch sends in C++ alone, are reported by the
strategy.

What a collective sends is its formula around a ring, in which each rank sends as much as any other (Patarasuk & Yuan
2009; Chan et al. 2007, "Collective communication: theory, practice, and experience", section 6).
"""

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.distributed import _functional_collectives as functional
from torch.distributed.distributed_c10d import ProcessGroup, Work

from workers.training.measuring.phases import COMMUNICATION, Phases


def ring_bytes(num_bytes: int, world_size: int) -> int:
    """Return what each rank sends in an all-reduce of ``num_bytes`` around a ring: 2 (N - 1) / N of them.

    Patarasuk & Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".
    """
    return 2 * (world_size - 1) * num_bytes // world_size


def gathered_bytes(num_bytes: int, world_size: int) -> int:
    """Return what each rank sends in an all-gather to which it brings ``num_bytes``: its piece and those it passes."""
    return (world_size - 1) * num_bytes


def scattered_bytes(num_bytes: int, world_size: int) -> int:
    """Return what each rank sends in a reduce-scatter of ``num_bytes`` on each: all pieces but its own. Between GPUs:
    gloo reduces the whole and keeps a piece, which sends twice as much."""
    return (world_size - 1) * num_bytes // world_size


def sent_bytes(num_bytes: int, world_size: int) -> int:
    """Return what a rank sends that sends ``num_bytes`` to one other."""
    return num_bytes


Sent = Callable[[int, int], int]  # bytes of what a rank puts in and ranks of the group -> bytes that it sends

# Methods of a process group, which argument holds what a rank puts in, and what it then sends.
METHODS: dict[str, tuple[int, Sent]] = {
    "allreduce": (0, ring_bytes),
    "allreduce_coalesced": (0, ring_bytes),
    "allgather": (1, gathered_bytes),
    "all_gather_single": (1, gathered_bytes),
    "_allgather_base": (1, gathered_bytes),
    "reduce_scatter_single": (1, scattered_bytes),
    "_reduce_scatter_base": (1, scattered_bytes),
    "send": (0, sent_bytes),
}
# DTensor's, which reach the process group in C++: their names now, and before torch 2.13.
FUNCTIONS: dict[str, tuple[str, Sent]] = {
    "all_reduce": ("all_reduce", ring_bytes),
    "all_gather_single": ("all_gather_tensor", gathered_bytes),
    "reduce_scatter_single": ("reduce_scatter_tensor", scattered_bytes),
}


class Counter:
    """Bytes that this process has sent since it started, and the clock of the training whose waits are counted."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.phases: Phases | None = None
        self.is_watching = False
        self._lock = threading.Lock()  # a parameter server sends from several threads

    def add(self, num_bytes: int) -> None:
        with self._lock:
            self.sent_bytes += num_bytes


_counter = Counter()  # of the process, as what it watches is


def watch(phases: Phases) -> Counter:
    """Count what this process sends from now on, and let waiting for other ranks be COMMUNICATION of ``phases``."""
    _counter.phases = phases
    if not _counter.is_watching:
        _counter.is_watching = True
        for name, (position, sent) in METHODS.items():
            if method := getattr(ProcessGroup, name, None):  # an older torch has fewer
                setattr(ProcessGroup, name, _counted_method(method, position, sent))
        for new, (old, sent) in FUNCTIONS.items():
            name = new if hasattr(functional, new) else old
            setattr(functional, name, _counted_function(getattr(functional, name), sent))
        Work.wait = _timed(Work.wait)  # type: ignore[method-assign]
        functional.wait_tensor = _timed(functional.wait_tensor)
    return _counter


def waiting() -> AbstractContextManager[None]:
    """Say that the block waits for other ranks, in a way of its own."""
    return nullcontext() if _counter.phases is None else _counter.phases.within(COMMUNICATION)


def _timed(wait: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wait)
    def timed(*args: Any, **named: Any) -> Any:
        phases = _counter.phases
        if phases is None or torch.compiler.is_compiling() or not phases.is_of_this_thread():
            return wait(*args, **named)
        before = phases.switch(COMMUNICATION)
        try:
            return wait(*args, **named)
        finally:
            phases.switch(before)

    return timed


def _counted_method(method: Callable[..., Any], position: int, sent: Sent) -> Callable[..., Any]:
    @functools.wraps(method)
    def counted(group: ProcessGroup, *args: Any, **named: Any) -> Any:
        if len(args) > position:
            _counter.add(_sent_bytes(sent, args[position], group.size()))
        return method(group, *args, **named)

    return counted


def _counted_function(function: Callable[..., Any], sent: Sent) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(tensor: torch.Tensor, *args: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling():
            group = named["group"] if "group" in named else next(one for one in args if not isinstance(one, (str, int)))
            _counter.add(_sent_bytes(sent, tensor, _size_of(group)))
        return function(tensor, *args, **named)

    return counted


def _sent_bytes(sent: Sent, what: Any, num_ranks: int) -> int:
    tensors = [what] if isinstance(what, torch.Tensor) else what
    if sent is scattered_bytes and tensors[0].device.type == "cpu":
        sent = ring_bytes
    return sent(sum(one.numel() * one.element_size() for one in tensors), num_ranks)


def _size_of(group: Any) -> int:
    """Return how many ranks are in ``group``, in any of the ways in which torch's functions take one."""
    return int(group[0].size(group[1]) if isinstance(group, tuple) else group.size())
