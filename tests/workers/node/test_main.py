from __future__ import annotations

import subprocess
import sys

PROBE = """
import structlog
from workers.node.main import configure_logs
configure_logs()
try:
    {}["what is not there"]
except KeyError:
    structlog.get_logger().exception("attempt.bug", attempt="a1")
"""


def test_an_unexpected_error_is_logged_with_its_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
    (line,) = done.stderr.splitlines()
    assert "attempt.bug" in line and "Traceback" in line and "what is not there" in line
