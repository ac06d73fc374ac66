import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.setup import __main__ as setup

ROOT = Path(__file__).resolve().parents[3]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SystemExit):
        setup.parse(["--for", "fun"])


def test_set_up_becomes_the_command_and_keeps_its_status() -> None:
    code = "import os, sys; print(float(os.environ['TRAINYARD_SETUP_SECONDS']) < 60); sys.exit(7)"
    words = ["-m", "dashboard.setup", "--", sys.executable, "-c", code]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "True"
    assert done.returncode == 7
