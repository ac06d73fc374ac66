"""How often something may happen: a rate over time, without making wait what comes a little early."""

from __future__ import annotations


class Throttle:
    """At most one in ``every_s`` seconds on average and never more than two in one of them; the first goes at once.

    One may come early because of jitter: messages of every 100 ms arrive after 97, then after 103, and a limit of
    exactly 100 would delay half of them. (The generic cell rate algorithm with a burst of two.)
    Times are seconds of a monotonic clock.
    """

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self._next_at = float("-inf")  # when the next one would come, if they came evenly

    def wait_s(self, now: float) -> float:
        """Seconds until the next may go, 0 where it may go now."""
        return max(0.0, self._next_at - self.every_s - now)

    def record(self, now: float, *, every_s: float | None = None) -> None:
        """One went. ``every_s``: after this one it takes so long, without one that is early."""
        if every_s is None:
            self._next_at = max(self._next_at, now) + self.every_s
        else:
            self._next_at = now + every_s + self.every_s
