"""The node worker: one per machine. ``python -m workers.node`` or ``trainyard node``."""

from workers.node.main import main

__all__ = ["main"]
