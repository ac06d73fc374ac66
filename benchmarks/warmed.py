"""Imported by the process that ranks are forked from, as a node's warm process is: it runs nothing and starts no thread."""

from __future__ import annotations

import gc
import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

from workers.training.warm import warm  # noqa: E402  # after the limits, for numpy starts its threads as it is imported

warm()
gc.collect()
gc.freeze()
