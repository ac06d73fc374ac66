"""A cold start, for benchmarks: ``torchrun --nproc-per-node 2 -m workers.training SPEC.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from workers.training.main import main

if len(sys.argv) != 2:
    sys.exit("usage: python -m workers.training SPEC.json")
main(json.loads(Path(sys.argv[1]).read_text()))
