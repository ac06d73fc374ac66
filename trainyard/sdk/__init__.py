"""What a training script calls: runs, points and media on their way into the spool."""

from trainyard.sdk.run import Run, init

__all__ = ["Run", "init"]
