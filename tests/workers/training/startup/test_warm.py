from __future__ import annotations

import json
import subprocess
import sys

from workers.node.zygote_keeper import ONE_THREAD

PROBE = """
import json, os, sys
from pathlib import Path
from workers.forking.zygote import import_module
from workers.training.startup.warm import LATER_MODULES, warm
warm()
for name in LATER_MODULES:
    import_module(name)
import torch
print(json.dumps({
    "threads": len(list(Path("/proc/self/task").iterdir())),
    "cuda": torch.cuda.is_initialized(),
    "dynamo": "torch._dynamo" in sys.modules,
    "django": "django" in sys.modules,
    "later": "sklearn.datasets" in sys.modules,
}))
"""


def test_warming_up_starts_no_thread_and_touches_no_gpu() -> None:
    environment = {**ONE_THREAD, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(done.stdout) == {"threads": 1, "cuda": False, "dynamo": True, "django": False, "later": True}
