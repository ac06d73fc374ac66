"""Compares what is wanted with what is reported, and sends the difference.

Everything here may run twice, or in two processes at once, or not at all for a while.
"""

from runs.life.reconcile.loop import reconcile_run, tick
from runs.life.reconcile.placing import schedule

__all__ = ["reconcile_run", "schedule", "tick"]
