"""Speed of each link: every pair of nodes alone, there and back."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

import torch
import torch.distributed as dist

from workers.training.communication.timing import NUM_WARM_UPS, LinearFit, Points, fit
from workers.training.group.agreement import gather_all

ONE_BY_ONE = 16  # up to so many nodes each pair has the network to itself


class NodeLink(NamedTuple):
    """Link between two nodes (between two ranks, where all are on one)."""

    first: str
    second: str
    points: Points  # bytes and seconds one way: medians

    @property
    def fit(self) -> LinearFit:
        """The line through them, with which the planner counts."""
        return fit(self.points)


def measure_pairs(nodes: Sequence[str], sizes: Sequence[int], repeats: int, device: torch.device) -> list[NodeLink]:
    """Return the links between the first ranks of all nodes; ``nodes`` names each rank's. A collective."""
    ends = first_ranks(nodes)
    rank, found = dist.get_rank(), list[NodeLink]()
    for together in rounds(list(ends)):
        for first, second in together:
            if rank in (first, second):
                points = [(size, median(ping(first, second, size, repeats, device))) for size in sizes]
                if rank == first:
                    found.append(NodeLink(ends[first], ends[second], points))
        dist.barrier()  # nobody measures while others still do
    return [link for links in gather_all(found) for link in links]


def ping(first: int, second: int, num_bytes: int, repeats: int, device: torch.device) -> list[float]:
    """Return half the time of each message there and back, on both ends alike as far as clocks go."""
    tensor, times = torch.zeros(max(1, num_bytes // 4), device=device), list[float]()
    for _ in range(NUM_WARM_UPS + repeats):
        started = time.perf_counter()
        if dist.get_rank() == first:
            dist.send(tensor, second)
            dist.recv(tensor, second)
        else:
            dist.recv(tensor, first)
            dist.send(tensor, first)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append((time.perf_counter() - started) / 2)
    return times[NUM_WARM_UPS:]


def first_ranks(nodes: Sequence[str]) -> dict[int, str]:
    """Return the first rank of each node and the node's name; on one node all its ranks, by their numbers."""
    ends = {nodes.index(name): name for name in dict.fromkeys(nodes)}
    return ends if len(ends) > 1 else {rank: f"{name} rank {rank}" for rank, name in enumerate(nodes)}


def rounds(ranks: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs: one by one where there are few, else as many at once as share no end (a round-robin)."""
    pairs = [(first, second) for at, first in enumerate(ranks) for second in ranks[at + 1 :]]
    if len(ranks) <= ONE_BY_ONE:
        yield from ([pair] for pair in pairs)
        return
    seats: list[int | None] = [*ranks, None] if len(ranks) % 2 else list(ranks)
    for _ in range(len(seats) - 1):
        sides = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        yield [(min(a, b), max(a, b)) for a, b in sides if a is not None and b is not None]
        seats = [seats[0], seats[-1], *seats[1:-1]]  # the first stays, all others move on by one
