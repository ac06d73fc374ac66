"""A sweep and its trials."""

from runs.models.sweeps.sweep import Sweep
from runs.models.sweeps.trial import Trial, TrialReport, TrialRun

__all__ = ["Sweep", "Trial", "TrialReport", "TrialRun"]
