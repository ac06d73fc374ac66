"""Early stopping: a run that learns no more ends before its last step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

RISING = ("val/accuracy", "val/r2")  # of the metrics, those whose larger values are better


@dataclass(slots=True)
class EarlyStopping:
    """Counts validations without a better value of ``metric``. ``best`` is what has fallen: less the value of one that
    is to rise."""

    patience: int = 0  # 0: never
    min_delta: float = 0.0
    metric: str = "val/loss"
    best: float = math.inf
    num_worse: int = 0  # in a row

    @property
    def is_over(self) -> bool:
        """Return whether the last validation was the one that ended the run: it may have been restored from there."""
        return 0 < self.patience <= self.num_worse

    def is_enough(self, value: float) -> bool:
        """Take note of a validation and return whether the run is to end. NaN is never better."""
        falling = -value if self.metric in RISING else value
        if falling < self.best - self.min_delta:
            self.best, self.num_worse = falling, 0
        else:
            self.num_worse += 1
        return self.is_over

    def reason(self) -> str:
        """Say in a sentence why the run ends, once it is enough."""
        delta = f" by more than {self.min_delta:g}" if self.min_delta else ""
        risen, best = ("risen above", -self.best) if self.metric in RISING else ("fallen below", self.best)
        return (
            f"{self.metric} has not {risen} its best {best:.4f}{delta} in {self.num_worse} validations in a row "
            f"(early_stopping.patience is {self.patience}): the run ends here"
        )

    def state(self) -> dict[str, float | None]:
        """Return what a checkpoint must keep, as JSON can say it: ``best`` is None before the first finite one."""
        return {"best": self.best if math.isfinite(self.best) else None, "num_worse": self.num_worse}

    def load(self, state: Mapping[str, float | None]) -> None:
        """Take back what ``state`` gave; an empty one changes nothing."""
        if state:
            best, num_worse = state["best"], state["num_worse"]
            self.best = math.inf if best is None else float(best)
            self.num_worse = int(num_worse or 0)
