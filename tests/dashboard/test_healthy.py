"""`docs/deploy/healthy.py`, the probe of containers, says what is wrong in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[2] / "docs" / "deploy" / "healthy.py"


@pytest.mark.parametrize("process", ["control", "ingest"])
def test_a_valkey_that_is_away_is_said_in_a_sentence(process: str) -> None:
    environment = {**os.environ, "REDIS_URL": "redis://:s3cret@127.0.0.1:9/0"}  # port 9: nobody listens there
    words = [sys.executable, str(PROBE), process]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Valkey does not answer: ") and ended.stderr.count("\n") == 1, ended.stderr
    assert "s3cret" not in ended.stderr
