"""Interface for training scripts: runs, points and media on their way into the spool."""

from trainyard.sdk.process_run import current, finish, init, log
from trainyard.sdk.run import Run
from trainyard.sdk.sweeping import Sweep, sweep

__all__ = ["Run", "Sweep", "current", "finish", "init", "log", "sweep"]
