"""A cold start, for benchmarks: ``torchrun --nproc-per-node 2 -m benchmarks.cold_start SPEC`` (a YAML or JSON file)."""

import os
import sys
from pathlib import Path

from trainyard.spec import load_spec_file, parse_spec
from workers.training.main import main

if len(sys.argv) != 2:
    sys.exit("usage: python -m benchmarks.cold_start SPEC")
main(parse_spec(load_spec_file(Path(sys.argv[1]))))
# As the ranks of a node end: torch's threads that outlive the interpreter aborted one of twenty cold runs.
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
