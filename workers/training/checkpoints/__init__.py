"""The state of a training on the disk: written beside the training, whole or not there, restored under any mesh.

One folder a checkpoint, ``step-N.fence-F``, of safetensors files and a manifest in JSON; nothing in it is code.
"""

from __future__ import annotations

from workers.training.checkpoints.keeping import DiskCheckpoints
from workers.training.checkpoints.store import Store, read_store

__all__ = ["DiskCheckpoints", "Store", "read_store"]
