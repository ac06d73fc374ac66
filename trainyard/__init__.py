"""Trainyard's SDK: ``run = trainyard.init(); run.log({"train/loss": 0.5}, step=1); run.finish()``.

Needs the standard library and msgspec only, so that it is cheap to import in any training script.
"""

from trainyard.formats.media import Audio, Histogram, Image, Table, Text
from trainyard.sdk import Run, Sweep, init, sweep

__version__ = "0.1.0"
__all__ = ["Audio", "Histogram", "Image", "Run", "Sweep", "Table", "Text", "__version__", "init", "sweep"]
