"""The largest batch that memory holds, or the smallest that is as quick as any: found before the first step.

Sizes double, from one row a pass, and the memory limit is then closed in on by bisection. Each size is tried by whole
steps of a training built like the real one, which is thrown away: the real one starts from untouched weights, random
state and optimizer. Every rank tries the same sizes, and the answer of the weakest counts.
"""

import dataclasses
import time
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.distributed as dist

from trainyard.formats.figures import rate
from trainyard.spec import RecipeSpec
from trainyard.spec.sections.train import Train
from workers.training.build import build
from workers.training.checkpoints.manifest import MANIFEST, Damaged, read_manifest
from workers.training.checkpoints.store import Store
from workers.training.group import RankPlace, gather_all
from workers.training.loop import kept_random_state, settle, take_step
from workers.training.measuring.memory import PeakMemory, release, share_of_memory
from workers.training.mesh import Mesh, share_batch
from workers.training.metrics import Metrics
from workers.training.passes import PlainPasses
from workers.training.recipes import Task
from workers.training.startup.noise_scale import find_by_noise

GAIN = 0.1  # twice the batch must bring a tenth more units a second to be worth its memory and its slower learning
LONGEST_STEP_S = 10.0  # beyond it no batch is tried: on a CPU memory would hold far more than anybody waits for
NUM_TIMED_STEPS = 2
PRECISION = 16  # the bisection ends within a sixteenth of the limit


@dataclasses.dataclass(frozen=True, slots=True)
class SizeTrial:
    """Result of steps with so many rows in a pass, the same on every rank: the slowest and the fullest one's."""

    rows: int
    fits: bool
    units_per_second: float = 0.0  # tokens or samples
    memory_bytes: int = 0  # the peak, over what the rank held before
    unit: str = "tokens"

    @property
    def line(self) -> str:
        if not self.fits:
            return "more than memory holds, or than a step may take"
        return f"{rate(self.units_per_second, self.unit)}, {self.memory_bytes / 2**20:.0f} MiB"


Try = Callable[[int], SizeTrial]  # of so many rows in a pass


def find_batch_size(
    spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device, place: RankPlace, metrics: Metrics
) -> Train:
    """Return ``settings`` with the batch size that ``train.find_batch_size`` asks for, and its learning rate.

    A collective. Raises ValueError where not even one row a pass fits.
    """
    kind = settings.find_batch_size
    if kind == "none":
        return settings
    if kind == "noise-scale":
        batch_size = find_by_noise(spec, task, settings, mesh, device, metrics)
        release(device)
        return report_found(settings, batch_size, None, mesh, metrics)
    rows_a_step = settings.accumulate * mesh.num_batch_parts
    with kept_random_state(device):
        trials = BatchSizeTrials(spec, task, settings, mesh, device, place, metrics)
        start = share_batch(settings.batch_size, settings.accumulate, mesh).micro
        rows = largest_that_fits(trials.attempt, start) if kind == "memory" else quickest(trials.attempt, start)
        trial = trials.attempt(rows) if rows else None
        trials.close()
    if trial is None:
        raise ValueError(
            f"train.find_batch_size is {kind!r}, but not even one row in a pass fits ({rows_a_step} a step): choose a "
            "smaller task.model, or more ranks under parallel.shard"
        )
    return report_found(settings, rows * rows_a_step, trial, mesh, metrics)


def batch_size_found_before(settings: Train, store: Store) -> Train | None:
    """Return ``settings`` as an earlier attempt of this run had found them, None where there is nothing to go on from.

    A collective: rank 0 reads the newest readable checkpoint and sends the result. All checkpoints of an attempt have
    it, so any of them may be restored.
    """
    if settings.find_batch_size == "none" and settings.find_learning_rate == "none":
        return None
    kept: tuple[int, float] | None = None
    for candidate in store.candidates:
        if dist.get_rank() != 0 or kept is not None or candidate.run != store.run:
            continue
        with suppress(Damaged, KeyError):
            state = read_manifest(candidate.folder, candidate.keyring, candidate.context(MANIFEST)).state
            kept = int(state["batch_size"]), float(state["learning_rate"])
    kept = gather_all(kept)[0]
    return None if kept is None else with_batch(settings, *kept)


def with_batch(settings: Train, batch_size: int, learning_rate: float) -> Train:
    return settings.model_copy(update={"batch_size": batch_size, "learning_rate": learning_rate})


def scaled_learning_rate(learning_rate: float, growth: float, how: str) -> float:
    """Return the learning rate for a batch ``growth`` times as large.

    ``linear`` (Goyal et al. 2017, section 2.1) fits SGD; ``sqrt`` (Krizhevsky 2014, section 5) fits Adam (Malladi et
    al. 2022, definition 2.2).
    """
    factors: dict[str, float] = {"none": 1.0, "linear": growth, "sqrt": growth**0.5}
    return learning_rate * factors[how]


def doubling(start: int) -> Callable[[int], int]:
    """Return what comes after each size: powers of two up to ``start``, then its own doubles."""
    return lambda rows: 2 * rows if rows >= start else min(2 * rows, start)


def largest_that_fits(attempt: Try, start: int) -> int:
    """Return the most rows a pass that fit, within a sixteenth; 0 where not even one does."""
    good, bad = 0, 1
    following = doubling(start)
    while attempt(bad).fits:
        good, bad = bad, following(bad)
    while bad - good > max(1, good // PRECISION):
        middle = (good + bad) // 2
        if attempt(middle).fits:
            good = middle
        else:
            bad = middle
    return good


def quickest(attempt: Try, start: int) -> int:
    """Return the rows a pass from which doubling gains less than GAIN in units a second, ``start`` or more; fewer
    only where those do not fit, 0 where not even one does."""
    rows, following = 1, doubling(start)
    best = attempt(rows)
    if not best.fits:
        return 0
    while True:
        trial = attempt(following(rows))
        is_worth_it = rows < start or trial.units_per_second >= (1 + GAIN) * best.units_per_second
        if not (trial.fits and is_worth_it):
            return rows
        rows, best = trial.rows, trial


class BatchSizeTrials:
    """Tries sizes on a training of its own. It agrees in every step, whatever the real one does: ranks that agree less
    often keep a copy or two of the weights more, for which the share of memory that is left free has room."""

    def __init__(
        self,
        spec: RecipeSpec,
        task: Task,
        settings: Train,
        mesh: Mesh,
        device: torch.device,
        place: RankPlace,
        metrics: Metrics,
    ) -> None:
        self._task, self._settings, self._mesh, self._device, self._metrics = task, settings, mesh, device, metrics
        self._memory = PeakMemory(device)
        self._limit = share_of_memory(device, place.local_world_size)
        dist.barrier()  # every rank has looked before any takes memory
        every_step = spec.parallel.synchronization.model_copy(update={"kind": "every-step"})
        plain = {"compression": "none", "balance": "none", "synchronization": every_step}
        spec = spec.model_copy(update={"parallel": spec.parallel.model_copy(update=plain)})
        self._training = build(spec, task, settings, mesh, device)
        settle(self._training)
        self._trials: dict[int, SizeTrial] = {}
        self._resting_bytes = 0

    def attempt(self, rows: int) -> SizeTrial:
        """Try ``rows`` rows in a pass. A collective: every rank returns the same."""
        if rows not in self._trials:
            self._trials[rows] = trial = self._attempt(rows)
            self._report(trial)
        return self._trials[rows]

    def close(self) -> None:
        self._training.feed.close()
        del self._training
        release(self._device)

    def _attempt(self, rows: int) -> SizeTrial:
        # Each waits for the other ranks' answers, so that none starts what another has given up.
        if self._any(self._is_sure_to_fail(rows)) or self._any(not self._has_room(rows)):
            return SizeTrial(rows, fits=False)
        step_time_s = self._timed(rows)
        peak = self._memory.peak_bytes()
        slowest, fullest = self._largest(step_time_s, float(peak))
        fits = not self._any(peak > self._limit) and slowest <= LONGEST_STEP_S
        self._resting_bytes = self._memory.resting_bytes()
        return SizeTrial(rows, fits, self._num_units(rows) / slowest, int(fullest), self._task.unit)

    def _has_room(self, rows: int) -> bool:
        """Run one pass without waiting for other ranks, so that a rank whose memory is full can report it. Shards
        cannot: their weights come from other ranks, and a rank out of memory ends the run."""
        passes = self._training.passes
        assert isinstance(passes, PlainPasses)  # no other is in the table of what goes with this
        batch_size = self._batch_size(rows)
        passes.resize(batch_size, share_batch(batch_size, self._settings.accumulate, self._mesh))
        if self._mesh.shard > 1:
            return True
        self._memory.restart()
        try:
            passes.rehearse()
        except torch.OutOfMemoryError:
            return False
        finally:
            self._training.optimizer.zero_grad()
            release(self._device)
        return self._memory.peak_bytes() <= self._limit

    def _timed(self, rows: int) -> float:
        """Return the seconds of a step, after one that makes what only the first makes."""
        self._memory.restart()
        take_step(self._training, 1)
        started = time.perf_counter()
        for step in range(1, 1 + NUM_TIMED_STEPS):
            take_step(self._training, step)
        return (time.perf_counter() - started) / NUM_TIMED_STEPS

    def _is_sure_to_fail(self, rows: int) -> bool:
        """Return whether ``rows`` surely do not fit, extrapolated from the sizes so far: activations grow with the
        rows, weights do not. Trying them would make this machine swap, or end its processes."""
        known = sorted((trial.rows, trial.memory_bytes) for trial in self._trials.values() if 0 < trial.rows < rows)
        if not known:
            return False
        last, held = known[-1]
        before, held_before = known[-2] if len(known) > 1 else (0, self._resting_bytes)
        expected = held + max(0.0, (held - held_before) / (last - before)) * (rows - last)
        expected_s = self._num_units(rows) / self._trials[last].units_per_second
        return expected > self._limit or expected_s > LONGEST_STEP_S

    def _batch_size(self, rows: int) -> int:
        return rows * self._settings.accumulate * self._mesh.num_batch_parts

    def _num_units(self, rows: int) -> int:
        return self._batch_size(rows) * self._task.units_per_row

    def _largest(self, *numbers: float) -> list[float]:
        """Return the largest of each number among all ranks."""
        among = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        dist.all_reduce(among, op=dist.ReduceOp.MAX)
        found: list[float] = among.tolist()
        return found

    def _any(self, answer: bool) -> bool:
        return self._largest(float(answer)) == [1.0]

    def _report(self, trial: SizeTrial) -> None:
        if self._mesh.rank != 0:
            return
        batch_size = self._batch_size(trial.rows)
        print(f"batch size {batch_size}: {trial.line}", flush=True)
        if trial.fits:
            values = {f"find/{trial.unit}_per_second": trial.units_per_second, "find/memory_bytes": trial.memory_bytes}
            self._metrics.log(values, step=batch_size)


def report_found(asked: Train, batch_size: int, trial: SizeTrial | None, mesh: Mesh, metrics: Metrics) -> Train:
    """Return the settings with that batch size and the learning rate that goes with it, and report both on rank 0."""
    rate = scaled_learning_rate(asked.learning_rate, batch_size / asked.batch_size, asked.scale_learning_rate)
    if mesh.rank == 0:
        words = f"batch size {asked.batch_size} -> {batch_size}"
        if trial is None:
            words += f", learning rate {rate:g}"
        else:
            words += f" ({asked.find_batch_size}: {trial.line}), learning rate {asked.learning_rate:g} -> {rate:g}"
            words += f" ({asked.scale_learning_rate})"
        print(words, flush=True)
        metrics.log({"find/batch_size": batch_size, "find/learning_rate": rate}, step=0)
    return with_batch(asked, batch_size, rate)
