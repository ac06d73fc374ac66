"""The lines that a person reads in the log: some, not one for every step."""

import time
from collections.abc import Mapping

from trainyard.formats.figures import RATES

NUM_LINES = 15
SILENCE_S = 10.0


class Progress:
    """Prints about NUM_LINES lines over a run's steps, and one after SILENCE_S in any case."""

    def __init__(self, steps: int, unit: str) -> None:
        self.steps = steps
        self.rate = RATES[unit]
        self.every = max(1, steps // NUM_LINES)
        self.printed_at = time.monotonic()

    def stepped(self, step: int, loss: float, learning_rate: float, units_per_second: float) -> None:
        if step in (1, self.steps) or step % self.every == 0 or time.monotonic() - self.printed_at >= SILENCE_S:
            rate = f"lr {learning_rate:.1e}  {with_unit(units_per_second)} {self.rate}"
            self._print(f"step {step}/{self.steps}  loss {loss:.3f}  {rate}")

    def validated(self, step: int, found: Mapping[str, float]) -> None:
        words = (f"{name.replace('/', ' ').replace('_', ' ')} {value:.3f}" for name, value in found.items())
        self._print(f"step {step}/{self.steps}  {'  '.join(words)}")

    def ended(self, step: int, reason: str) -> None:
        """Say why there are no more steps."""
        self._print(f"step {step}/{self.steps}  {reason}")

    def _print(self, line: str) -> None:
        self.printed_at = time.monotonic()
        print(line, flush=True)


def with_unit(number: float) -> str:
    """Return ``number`` as people say it: 950, 12.4k, 3.1M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"
