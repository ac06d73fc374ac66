"""Interface for training scripts: runs, points and media on their way into the spool."""

from trainyard.sdk.run import Run, init
from trainyard.sdk.sweeping import Sweep, sweep

__all__ = ["Run", "Sweep", "init", "sweep"]
