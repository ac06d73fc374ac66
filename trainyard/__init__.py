"""Trainyard's SDK: ``run = trainyard.init(); run.log({"train/loss": 0.5}, step=1); run.finish()``.

Needs the standard library and msgspec only, so that it is cheap to import in any training script.
"""

from typing import Any

from trainyard.formats.media import Audio, Histogram, Html, Image, Table, Text, Video
from trainyard.sdk import Run, Sweep, current, finish, init, log, sweep

__version__ = "0.1.0"
__all__ = [
    "Audio", "Histogram", "Html", "Image", "Run", "Sweep", "Table", "Text", "Video", "__version__", "finish", "init",
    "log", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return ``config`` and ``run`` of the newest ``init``; ``Api``, which needs more than training scripts load."""
    if name == "Api":
        from trainyard.rest.api import Api

        return Api
    if name in ("config", "run"):
        run = current()
        return run.config if name == "config" else run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
