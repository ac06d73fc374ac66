"""Imported by the process that ranks are forked from, as a node's warm process is: runs nothing, starts no thread."""

from __future__ import annotations

import gc
import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

from workers.training.startup.warm import warm  # after the limits, for numpy starts its threads as it is imported

warm()
gc.collect()
gc.freeze()
