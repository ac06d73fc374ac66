"""Exchanges of a tensor between all ranks, in each of the ways that trainings use, and their times.

``num_bytes`` is the size of the whole tensor, as every rank has it before or after: what an all-gather puts together,
what a reduce-scatter takes apart. So the sizes of all operations can be compared.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from workers.training.group import all_gather_single, reduce_scatter_single

Exchange = Callable[[], None]
ITEM_BYTES = 4  # float32, as gradients are
NUM_WARM_UPS = 1
GROWTH = 4
Points = list[tuple[int, float]]  # bytes and seconds


def make_exchange(operation: str, num_bytes: int, device: torch.device) -> Exchange:
    """Return what does one exchange. Its tensors are made here, so that no exchange pays for memory."""
    world = dist.get_world_size()
    num_each = max(1, num_bytes // (ITEM_BYTES * world))  # every rank's part, in numbers
    part, whole = torch.zeros(num_each, device=device), torch.zeros(num_each * world, device=device)
    if operation == "parameter-server":
        return _parameter_server(whole)
    exchanges: dict[str, Exchange] = {
        "all-reduce": lambda: _wait(dist.all_reduce(whole, async_op=True)),
        "all-gather": lambda: _wait(all_gather_single(whole, part, async_op=True)),
        "reduce-scatter": lambda: _wait(reduce_scatter_single(part, whole, async_op=True)),
        "ring": lambda: ring_all_reduce(whole, part),
    }
    return exchanges[operation]


def bus_factor(operation: str, world: int) -> float:
    """Return how often each byte of the tensor crosses a rank's link at least, as NCCL's tests count ("bus bandwidth").

    With it bandwidths of different operations and numbers of ranks can be compared with that of the wire.
    """
    if operation in ("all-reduce", "ring"):
        return 2 * (world - 1) / world
    if operation in ("all-gather", "reduce-scatter"):
        return (world - 1) / world
    return 1.0 if operation == "send-receive" else float(world - 1)  # all of it through the server's link


def _parameter_server(own: torch.Tensor) -> Exchange:
    """Every rank sends rank 0 its gradient and waits for new weights, as without any collective."""
    if dist.get_rank() > 0:

        def work() -> None:
            dist.send(own, 0)
            dist.recv(own, 0)

        return work
    arriving = [torch.zeros_like(own) for _ in range(dist.get_world_size() - 1)]

    def serve() -> None:
        for work in [dist.irecv(tensor, rank) for rank, tensor in enumerate(arriving, start=1)]:
            _wait(work)
        for tensor in arriving:
            own.add_(tensor)
        for work in [dist.isend(own, rank) for rank in range(1, len(arriving) + 1)]:
            _wait(work)
        own.zero_()  # else a thousand sums of sums would overflow

    return serve


def _wait(work: dist.Work | None) -> None:
    assert work is not None
    work.wait()


# A ring all-reduce, step by step, as libraries do it underneath: to see what theirs is worth.
#
# Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations", section 3.
# The tensor is cut into as many parts as there are ranks. In n - 1 rounds each rank sends one part to its right and
# adds what comes from its left; then each owns one part's sum, and in n - 1 more rounds the sums go round. Each rank
# sends 2 (n - 1) / n of the tensor, whatever n is.


def ring_all_reduce(tensor: torch.Tensor, arriving: torch.Tensor | None = None) -> None:
    """Sum ``tensor`` in place over all ranks; its length is a multiple of their number.

    ``arriving`` is room for one part. Raises ValueError for a length that the ranks do not divide.
    """
    world, rank = dist.get_world_size(), dist.get_rank()
    if tensor.numel() % world:
        raise ValueError(f"{tensor.numel()} numbers cannot be cut into {world} equal parts")
    parts = tensor.view(world, -1)
    room = torch.empty_like(parts[0]) if arriving is None else arriving
    for turn in range(world - 1):
        _shift(parts[(rank - turn) % world], room)
        parts[(rank - turn - 1) % world].add_(room)
    for turn in range(world - 1):
        _shift(parts[(rank - turn + 1) % world], parts[(rank - turn) % world])


def _shift(leaving: torch.Tensor, arriving: torch.Tensor) -> None:
    """Send one part to the right and take one from the left. Both at once: if all only sent, all would wait."""
    world, rank = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return
    both = [dist.P2POp(dist.isend, leaving, (rank + 1) % world), dist.P2POp(dist.irecv, arriving, (rank - 1) % world)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


# Times of exchanges, and the line through all sizes.


class LinearFit(NamedTuple):
    """Seconds of a message are ``latency_s`` and its bytes over ``bytes_per_s``."""

    latency_s: float
    bytes_per_s: float


def sizes_between(smallest: int, largest: int) -> list[int]:
    """Return the sizes that are tried, by factors of GROWTH, and ``largest`` at the end."""
    sizes = [smallest]
    while sizes[-1] * GROWTH < largest:
        sizes.append(sizes[-1] * GROWTH)
    return sizes if sizes[-1] == largest else [*sizes, largest]


def timed(exchange: Exchange, repeats: int, device: torch.device) -> list[float]:
    """Return the seconds that each of ``repeats`` exchanges took this rank. A collective.

    Nothing is said between the repeats: one exchange ends together, so the next begins together.
    """
    for _ in range(NUM_WARM_UPS):
        exchange()
    own = []
    for _ in range(repeats):
        settle(device)
        started = time.perf_counter()
        exchange()
        settle(device)
        own.append(time.perf_counter() - started)
    return own


def fit(points: Sequence[tuple[int, float]]) -> LinearFit:
    """Return the line through (bytes, seconds) whose relative errors are least, in the sense of squares.

    One point alone gives a bandwidth without a latency. Raises ValueError without any.
    """
    if not points:
        raise ValueError("there is no point to lay a line through")
    # Of (a + b x - t) / t: the normal equations of two unknowns.
    left, right = sum(1 / t for _, t in points), sum(x / t for x, t in points)
    ones, mixed, squares = (sum(x**power / t**2 for x, t in points) for power in (0, 1, 2))
    determinant = ones * squares - mixed**2
    if len(points) == 1 or determinant <= 1e-12 * ones * squares:
        return LinearFit(0.0, points[-1][0] / points[-1][1])
    latency, slope = (left * squares - right * mixed) / determinant, (right * ones - left * mixed) / determinant
    if latency < 0:  # the line through the origin is the best that is possible
        latency, slope = 0.0, right / squares
    if slope <= 0:  # what takes as long whatever its size: all of it is latency
        return LinearFit(statistics.median(t for _, t in points), max(x / t for x, t in points))
    return LinearFit(latency, 1 / slope)


def settle(device: torch.device) -> None:
    """Return once a GPU has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
