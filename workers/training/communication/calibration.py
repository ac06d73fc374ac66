"""Speed at which this process computes beside its neighbours, measured in some seconds for the planner.

Every kind of operator is timed as a training uses it, forward and backward. What only moves memory finds it cold, as
activations are that no cache holds all of. All are timed in rounds, each once a round: a machine that is slow
for a second then slows a round of all of them, which medians pass over, and not all rounds of one.

What ``measure_compute`` returns has no links, which take more than one process.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
import torch.distributed as dist
import torch.nn.functional as F

from trainyard.planner import Rates
from workers.training.communication.exchanges import settle
from workers.training.group import gather_all
from workers.training.measuring.memory import Held, held, release
from workers.training.recipes import gpt

Timed = tuple[str, int]  # the curve of a program, and which of its points it makes

ROUNDS = 15
TRIAL_S = 0.012  # of a program in a round, in which small operators run several times
MOST_LOOPS = 100
MODEL = gpt.Shape(layers=3, width=192, heads=4, kv_heads=4, context=128, vocabulary=256)
MODEL_ROWS = 8
GROWTH_ON_GPU = 16  # times the rows
AHEAD_CYCLES = 40_000_000  # of a GPU, some 20 ms, in which it is told all that one trial times
KEPT_BYTES = 128 * 2**20  # that sums go through, as activations: more than caches hold
POOLS: WeakValueDictionary[torch.device, torch.Tensor] = WeakValueDictionary()
# Tokens, inputs and outputs of a product: those of small and of middling transformers.
PRODUCTS = ((64, 64, 64), (512, 64, 128), (1024, 128, 128), (2048, 192, 384), (2048, 512, 512), (1024, 1024, 2048))
SMALL_PRODUCTS = ((512, 64, 128), (2048, 192, 384), (1024, 1024, 1024))
ATTENTIONS = ((8, 4, 16, 32), (4, 4, 128, 32), (4, 6, 256, 32), (2, 8, 512, 64))  # rows, heads, tokens, head width
SMALL_ATTENTIONS = ((4, 4, 128, 32), (4, 6, 256, 32))
ONLY_ON_GPU = {  # a CPU would take seconds
    "matmul/bf16": ((1024, 2048, 4096),),
    "attention/bf16": ((1, 12, 1024, 64), (4, 16, 1024, 128)),
}
IMAGES = ((16, 16, 4), (64, 16, 8), (64, 48, 8), (32, 64, 16))  # rows, channels, side
MOVED = ((2**14,), (2**17,), (2**19,), (2**21,))  # numbers
NORMED = ((256, 64), (2048, 192), (8192, 256))  # rows, width
CLASSES = ((1024, 256), (4096, 256))  # rows, classes
TRAINED = ((2**18,), (2**21,), (2**23,))  # parameters


class TimedProgram(NamedTuple):
    """Something to time: ``run`` does ``work``, in operators of ``size`` each."""

    size: float
    work: float
    run: Callable[[], Any]
    num_first: int = 0  # calls in each round before those that are timed


def measure_compute(device: torch.device, between: Callable[[], None] | None = None) -> Rates:
    """Return the rates without links. Called on all ranks at once, as they train.
    ``between`` is called in each round, and not timed."""
    memory = _held_after_use(device)
    programs = {**_programs(device), ("operator", 0): _operator(device), ("model", 0): small_model(device)}
    crowding = _Crowding(between)
    seconds = _in_rounds(programs, device, crowding.between)
    curves = {
        name: tuple(
            sorted((one.size, one.work / seconds[kind, at]) for (kind, at), one in programs.items() if kind == name)
        )
        for name in CURVES
    }
    operator_s = seconds["operator", 0] / programs["operator", 0].work
    products = curves.pop("matmul")
    return Rates(
        matmul=products,
        memory_bytes_per_s=curves["move"][-1][1],
        operator_s=operator_s,
        base_memory_bytes=memory.own_bytes,
        shared_memory_bytes=memory.shared_bytes,
        sharers=memory.sharers,
        kinds=curves,
        peak_flops={"fp32": max(rate for _, rate in products), "bf16": max(rate for _, rate in curves["matmul/bf16"])},
        is_measured=True,
        crowding=max(1.0, crowding.measured) if device.type == "cpu" else 1.0,
        model_s=seconds["model", 0],
    )


def _held_after_use(device: torch.device) -> Held:
    """Return what a rank holds once its libraries have done everything that is timed, and before it exchanges much:
    the C library keeps memory of the threads that do."""
    for program in (*_programs(device).values(), small_model(device)):
        program.run()
    del program
    release(device)
    return held(device)


class _Crowding:
    """Ratio of this process's wall time to its time of computing, less what is done between."""

    def __init__(self, between: Callable[[], None] | None) -> None:
        self._between = between
        self._wall, self._busy = time.perf_counter(), time.process_time()

    def between(self) -> None:
        wall, busy = time.perf_counter(), time.process_time()
        if self._between:
            self._between()
        self._wall += time.perf_counter() - wall
        self._busy += time.process_time() - busy

    @property
    def measured(self) -> float:
        return (time.perf_counter() - self._wall) / max(1e-9, time.process_time() - self._busy)


def measure_ranks(device: torch.device, between: Callable[[], None] | None = None) -> Rates:
    """Return what ``measure_compute`` finds on the slowest rank: ranks that wait for each other step at its pace. A
    collective of all ranks, which compute at once, as in a training."""
    dist.barrier()
    return min(gather_all(measure_compute(device, between)), key=lambda one: sum(rate for _, rate in one.matmul))


def _programs(device: torch.device) -> dict[Timed, TimedProgram]:
    """Return what is timed, by curve and number. A GPU gets more rows."""
    growth, more = (GROWTH_ON_GPU, ONLY_ON_GPU) if device.type == "cuda" else (1, {})
    return {
        (name, at): make(device, shape[0] * growth, *shape[1:])
        for name, (make, shapes) in CURVES.items()
        for at, shape in enumerate((*shapes, *more.get(name, ())))
    }


def _in_rounds(
    programs: Mapping[Timed, TimedProgram], device: torch.device, between: Callable[[], None] | None = None
) -> dict[Timed, float]:
    """Return the seconds of one call of each program: medians over rounds in which each has its turn."""
    loops = {}
    for key, program in programs.items():
        program.run()  # what is made at the first call
        loops[key] = max(1, min(MOST_LOOPS, int(TRIAL_S / max(1e-9, _timed(program.run, 1, device)))))
    taken: dict[Timed, list[float]] = {key: [] for key in programs}
    for _ in range(ROUNDS):
        if between:
            between()
        for key, program in programs.items():
            for _ in range(program.num_first):
                program.run()
            time_it = _timed_on_gpu if device.type == "cuda" and key[0] in CURVES else _timed
            taken[key].append(time_it(program.run, loops[key], device))
    return {key: statistics.median(seconds) for key, seconds in taken.items()}


def small_model(device: torch.device) -> TimedProgram:
    """Return a pass through a small GPT, forward and backward. ``model_s`` is what it takes right after another one."""
    model = gpt.GPT(MODEL).to(device)
    rows = MODEL_ROWS * (GROWTH_ON_GPU if device.type == "cuda" else 1)
    tokens = torch.zeros(rows, MODEL.context, dtype=torch.int64, device=device)
    parameters = list(model.parameters())

    def run() -> None:
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        torch.autograd.grad(loss, parameters)

    # A step of a training finds its pages where the last one left them: after other programs, only a second pass does.
    return TimedProgram(1.0, 1.0, run, num_first=1)


def _timed(run: Callable[[], Any], loops: int, device: torch.device) -> float:
    settle(device)
    started = time.perf_counter()
    for _ in range(loops):
        run()
    settle(device)
    return (time.perf_counter() - started) / loops


def _timed_on_gpu(run: Callable[[], Any], loops: int, device: torch.device) -> float:
    """Return what a GPU takes that does not wait for its orders: the planner counts calls by themselves."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda._sleep(AHEAD_CYCLES)  # type: ignore[no-untyped-call]
    began.record()
    for _ in range(loops):
        run()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3 / loops


def _operator(device: torch.device) -> TimedProgram:
    """Operators whose work is nothing, forward and backward: what is left is what calling them costs."""
    one, other = _numbers(device, 8), _numbers(device, 8)
    gradient, number = torch.ones_like(one), 64 if device.type == "cuda" else 8

    def run() -> None:
        found = one
        for _ in range(number):
            found = found * other
        torch.autograd.grad(found, (one, other), gradient)

    return TimedProgram(1.0, 4.0 * number, run)  # backward: two products each, and the sum of the second one's


def _numbers(device: torch.device, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.rand(*shape, device=device, dtype=dtype, requires_grad=True)


def _both_ways(forward: Callable[[], torch.Tensor], *leaves: torch.Tensor) -> Callable[[], Any]:
    gradient = torch.rand_like(forward())
    return lambda: torch.autograd.grad(forward(), leaves, gradient)


def _product(
    device: torch.device, rows: int, inputs: int, outputs: int, dtype: torch.dtype | None = None
) -> TimedProgram:
    x, weight = _numbers(device, rows, inputs, dtype=dtype), _numbers(device, outputs, inputs, dtype=dtype)
    flops = 2.0 * rows * inputs * outputs
    return TimedProgram(flops, 3 * flops, _both_ways(lambda: F.linear(x, weight), x, weight))


def _attention(
    device: torch.device, rows: int, heads: int, time: int, width: int, dtype: torch.dtype | None = None
) -> TimedProgram:
    one, other, third = (_numbers(device, rows, heads, time, width, dtype=dtype) for _ in range(3))
    piece = 4.0 * time**2 * width
    flops = rows * heads * piece
    run = _both_ways(lambda: F.scaled_dot_product_attention(one, other, third, is_causal=True), one, other, third)
    return TimedProgram(flops if device.type == "cuda" else piece, 3.5 * flops, run)


def _convolution(device: torch.device, rows: int, channels: int, side: int) -> TimedProgram:
    x, kernel = _numbers(device, rows, channels, side, side), _numbers(device, channels, channels, 3, 3)
    flops = 2.0 * rows * side**2 * channels**2 * 9
    return TimedProgram(flops, 3 * flops, _both_ways(lambda: F.conv2d(x, kernel, padding=1), x, kernel))


def _norm(device: torch.device, rows: int, width: int) -> TimedProgram:
    x, gain = _numbers(device, rows, width), _numbers(device, width)
    run = _both_ways(lambda: F.layer_norm(x, (width,), gain), x, gain)
    return TimedProgram(4.0 * rows * width, 12.0 * rows * width, run)


def _group_norm(device: torch.device, rows: int, channels: int, side: int) -> TimedProgram:
    x, gain, bias = _numbers(device, rows, channels, side, side), _numbers(device, channels), _numbers(device, channels)
    size = 4.0 * rows * channels * side**2
    return TimedProgram(size, 3 * size, _both_ways(lambda: F.group_norm(x, 8, gain, bias), x, gain, bias))


def _loss(device: torch.device, rows: int, classes: int) -> TimedProgram:
    x, targets = _numbers(device, rows, classes), torch.zeros(rows, dtype=torch.int64, device=device)
    size = 4.0 * rows * classes
    return TimedProgram(size, 3 * size, _both_ways(lambda: F.cross_entropy(x, targets), x))


def _sum(device: torch.device, number: int) -> TimedProgram:
    """Return a program that combines what was made just before with what was made long ago, into memory unused for
    long, as activations are read and written: no cache holds all."""
    pool = _pool(device)
    pieces = pool[: pool.numel() // number * number].view(-1, number).unbind()
    turns = itertools.cycle(range(len(pieces)))

    def run() -> None:
        at = next(turns)
        torch.maximum(pieces[at - 1], pieces[(at + 1) % len(pieces)], out=pieces[at])

    return TimedProgram(12.0 * number, 12.0 * number, run)


def _pool(device: torch.device) -> torch.Tensor:
    """Return what all sums take their memory from, which is there as long as one of them is."""
    pool = POOLS.get(device)
    if pool is None:
        number = KEPT_BYTES // 4 * (GROWTH_ON_GPU if device.type == "cuda" else 1)
        POOLS[device] = pool = torch.rand(number, device=device)
    return pool


def _step(device: torch.device, number: int) -> TimedProgram:
    """A step of the optimizer that most trainings have: it reads four numbers of each parameter, and writes three."""
    parameter = _numbers(device, number)
    parameter.grad = torch.rand_like(parameter)
    return TimedProgram(28.0 * number, 28.0 * number, torch.optim.AdamW([parameter], lr=0.0, fused=True).step)


CURVES: dict[str, tuple[Callable[..., TimedProgram], tuple[tuple[int, ...], ...]]] = {
    "matmul": (_product, PRODUCTS), "matmul/bf16": (partial(_product, dtype=torch.bfloat16), SMALL_PRODUCTS),
    "attention": (_attention, ATTENTIONS),
    "attention/bf16": (partial(_attention, dtype=torch.bfloat16), SMALL_ATTENTIONS),
    "convolution": (_convolution, IMAGES), "norm": (_norm, NORMED), "group-norm": (_group_norm, IMAGES),
    "softmax": (_loss, CLASSES), "move": (_sum, MOVED), "optimizer": (_step, TRAINED),
}  # fmt: skip
