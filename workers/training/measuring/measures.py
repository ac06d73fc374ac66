"""Phases, bytes and FLOPs that a rank measures, as series in every step, and as facts now and then."""

import time
from collections import deque
from collections.abc import Mapping
from statistics import fmean, median
from typing import NamedTuple

import torch

from trainyard.contract.facts import MeasuredFacts
from trainyard.formats.figures import rate
from workers.training.measuring import memory
from workers.training.measuring.collectives import watch
from workers.training.measuring.flops import peak_flops
from workers.training.measuring.phases import CHECKPOINT, NAMES, OPTIMIZER, Phases
from workers.training.mesh import Mesh

NOTE_PERIOD_S = 10.0
FIRST_NOTE_STEP = 3  # of an attempt: the first is slower than all others
WINDOW = 50  # steps in a fact, at most
NUM_PROBES = 3  # of a device's peak, of which the best counts: the machine may be busy with something else
LEAST_STALL_S = 0.0005  # a checkpoint that was not due takes less


class StepMeasures(NamedTuple):
    """Measures of one step: ``phases`` are seconds by phase, which add up to it; ``sent_bytes`` are this rank's."""

    phases: Mapping[str, float]
    sent_bytes: int


class Step(NamedTuple):
    time_s: float
    measured: StepMeasures
    stall_s: float = 0.0


class Measures:
    """The measuring of one training. ``flops_per_row`` is the model's, forward and backward; ``sent_by_backward`` are
    the bytes that each step's backward pass sends where no collective of Python's is seen (DDP)."""

    def __init__(
        self, device: torch.device, mesh: Mesh, *, precision: str, flops_per_row: float, sent_by_backward: int = 0
    ) -> None:
        self.phases = Phases(device)
        self._counter = watch(self.phases)
        self._device, self._mesh, self._precision = device, mesh, precision
        self._flops_per_row, self._sent_by_backward = flops_per_row, sent_by_backward
        self._sent_before = 0
        self._peak_flops: float | None = None
        self._num_probes = 0
        self._num_steps = 0
        self._steps: deque[Step] = deque(maxlen=WINDOW)
        self._noted_at = -NOTE_PERIOD_S

    def begin(self) -> None:
        if self._num_steps == 0:
            memory.restart_peak(self._device)  # what loading and drawing the model took is over
        self._sent_before = self._counter.sent_bytes
        self.phases.start(OPTIMIZER)

    def end(self, time_s: float) -> StepMeasures:
        """End the step, whose last kernel is done; it took ``time_s``."""
        sent = self._counter.sent_bytes - self._sent_before + self._sent_by_backward
        measured = StepMeasures(self.phases.read(), sent)
        self._steps.append(Step(time_s, measured))
        self._num_steps += 1
        memory.look_for_peak(self._device)
        return measured

    def kept(self, stall_s: float) -> dict[str, float]:
        """Take note of how long the last step's checkpoint has kept the training; return it as a series' value."""
        if stall_s < LEAST_STALL_S:
            return {}
        self._steps[-1] = self._steps[-1]._replace(stall_s=stall_s)
        return {f"rank/phase/{CHECKPOINT}_s": stall_s}

    def own(self, measured: StepMeasures) -> dict[str, float]:
        """Return this rank's values of the step by the names of series."""
        phases = {f"rank/phase/{name}_s": seconds for name, seconds in measured.phases.items()}
        return {**phases, "rank/sent_bytes": measured.sent_bytes}

    def shared(self, time_s: float, batch_size: int) -> dict[str, float]:
        """Return what all ranks together reach in a step of ``batch_size`` rows, by the names of series. As many
        FLOP/s as this rank's device are taken for every rank's."""
        rate = self._flops_per_row * batch_size / time_s
        values = {"train/flops_per_second": rate}
        each = rate / self._mesh.world_size
        if peak := self._peak_above(each):
            values["train/mfu"] = each / peak
        return values

    def facts(self, step: int, *, rows: int, is_last: bool = False) -> MeasuredFacts | None:
        """Return the facts to report after ``step``, of which this rank has computed ``rows``; None where none are due.
        Called between two steps: the first times it measures what a CPU can reach, which takes 20 ms."""
        now = time.monotonic()
        is_due = self._num_steps >= FIRST_NOTE_STEP and now - self._noted_at >= NOTE_PERIOD_S
        if not (is_due or is_last):
            return None
        self._noted_at = now
        if self._num_probes < NUM_PROBES:
            self._num_probes += 1
            found = peak_flops(self._device, self._precision)
            self._peak_flops = None if found is None else max(found, self._peak_flops or 0.0)
        return self._facts(step, rows)

    def _facts(self, step: int, rows: int) -> MeasuredFacts:
        steps = list(self._steps)
        if len(steps) > 1 and self._num_steps <= WINDOW:
            steps = steps[1:]  # the first makes what the others only use
        step_time_s = median(one.time_s for one in steps)
        phases = {name: fmean(one.measured.phases.get(name, 0.0) for one in steps) for name in NAMES}
        phases[CHECKPOINT] = fmean(one.stall_s for one in steps)
        # Ranks that share a model by its layers or its weights' pieces share its FLOPs as well.
        flops = self._flops_per_row * rows * self._mesh.num_batch_parts / self._mesh.world_size
        peak = self._peak_above(flops / step_time_s)
        return MeasuredFacts(
            step=step,
            num_steps=len(steps),
            step_time_s=step_time_s,
            phases=phases,
            memory_bytes=memory.memory_bytes(self._device),
            peak_memory_bytes=memory.peak_bytes(self._device),
            sent_bytes=fmean(one.measured.sent_bytes for one in steps),
            rows=rows,
            flops_per_step=flops,
            mfu=flops / step_time_s / peak if peak else None,
        )

    def _peak_above(self, reached: float) -> float | None:
        """Return the device's peak. A CPU that has ``reached`` more than was found was busy when it was looked for."""
        if self._peak_flops is not None and self._device.type == "cpu":
            self._peak_flops = max(self._peak_flops, reached)
        return self._peak_flops


NUM_LINES = 15
SILENCE_S = 10.0


class Progress:
    """Prints about NUM_LINES lines over a run's steps, and one after SILENCE_S in any case."""

    def __init__(self, steps: int, unit: str) -> None:
        self.steps, self.unit = steps, unit
        self.every = max(1, steps // NUM_LINES)
        self.printed_at = time.monotonic()

    def stepped(self, step: int, loss: float, learning_rate: float, units_per_second: float) -> None:
        if step in (1, self.steps) or step % self.every == 0 or time.monotonic() - self.printed_at >= SILENCE_S:
            pace = f"lr {learning_rate:.1e}  {rate(units_per_second, self.unit)}"
            self._print(f"step {step}/{self.steps}  loss {loss:.3f}  {pace}")

    def validated(self, step: int, found: Mapping[str, float]) -> None:
        words = (f"{name.replace('/', ' ').replace('_', ' ')} {value:.3f}" for name, value in found.items())
        self._print(f"step {step}/{self.steps}  {'  '.join(words)}")

    def ended(self, step: int, reason: str) -> None:
        self._print(f"step {step}/{self.steps}  {reason}")

    def _print(self, line: str) -> None:
        self.printed_at = time.monotonic()
        print(line, flush=True)
