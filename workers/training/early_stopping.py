"""When a run that learns no more ends before its last step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class EarlyStopping:
    """Counts validations without a better loss. With the same losses every rank comes to the same answer."""

    patience: int = 0  # 0: never
    min_delta: float = 0.0
    best: float = float("inf")
    num_worse: int = 0  # in a row

    def is_enough(self, loss: float) -> bool:
        """Take note of a validation and return whether the run is to end. NaN is never better."""
        if loss < self.best - self.min_delta:
            self.best, self.num_worse = loss, 0
        else:
            self.num_worse += 1
        return 0 < self.patience <= self.num_worse
