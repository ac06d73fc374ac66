"""`trainyard doctor` beside a running Trainyard."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.up_process import ROOT, Up


def doctor(up: Up, cluster: str, *more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRAINYARD_HOME": str(up.home), "PUBLIC_URL": up.url}
    words = [sys.executable, "-m", "dashboard.doctor", "--cluster", cluster, *more]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False, cwd=ROOT)
