"""Stop of a training (SIGTERM) behind a step that all ranks agree on, with its state saved.

Ranks get the signal at different moments, and a rank that saved while another trains on would wait for ever. So they
sum a flag over all ranks, 1 for each that got the signal: above 0, all stop. It is one number, a few times a second and
not in every step. In the same sum rank 0 sends when the next check is.

Ranks that agree on their weights only now and then (local SGD, DiLoCo) check at their averages and stop there. With a
parameter server only rank 0, which holds the weights, checks; the others end with it.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workers.training.build import Training

LOOK_EVERY_S = 0.25
MOST_STEPS = 10_000  # between two looks; as float32 counts them exactly


class Stopping:
    def __init__(self, training: Training, first: int) -> None:
        """``first`` is the first step that is taken."""
        self._training = training
        self._requested = threading.Event()
        self._next = first
        self._looked = first - 1
        self._looked_at = time.monotonic()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM as the wish to stop while the block runs. Outside the main thread it stays as it is."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGTERM, lambda *_: self._requested.set())
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    @property
    def was_asked(self) -> bool:
        """Return whether this rank got the signal itself."""
        return self._requested.is_set()

    def is_due(self, step: int) -> bool:
        """Return whether the training ends behind ``step``, the same on all ranks. A collective where ranks agree on
        their weights behind this step."""
        training = self._training
        if step < self._next or not training.synchronization.is_agreed:
            return False
        word = torch.tensor([float(self._requested.is_set()), 0.0], device=training.device)
        if training.mesh.rank == 0:
            word[1] = self._steps_to_next(step)
        if (summing := training.start_agreed_sum(word)) is not None:
            summing.wait()
        asked, pause = word.tolist()
        self._next = step + int(pause)
        return bool(asked > 0)

    def _steps_to_next(self, step: int) -> int:
        """Return after how many steps ranks look again, by how long the last ones took."""
        now = time.monotonic()
        each_s = (now - self._looked_at) / max(1, step - self._looked)
        self._looked, self._looked_at = step, now
        return max(1, min(MOST_STEPS, int(LOOK_EVERY_S / max(each_s, 1e-6))))
