"""A tethered program dies with whoever started it, though it knows nothing of us."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from dashboard.up import parent_death as tether
from tests.up_process import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")

PARENT = """
import subprocess, sys, time
from dashboard.up.parent_death import tethered
child = subprocess.Popen(tethered(["sleep", "60"]))
print(child.pid, flush=True)
time.sleep(60)
"""


def test_it_becomes_the_command() -> None:
    done = subprocess.run(
        tether.tethered(["sh", "-c", "echo $0 $1; exit 3", "a", "b c"]), capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("a b c\n", 3)


def test_it_dies_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_until(lambda: child.name() == "sleep", "the child is sleep")
        parent.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "it is gone")


def test_it_does_not_start_for_a_parent_that_is_gone() -> None:
    command = [sys.executable, "-I", "-S", tether.__file__, "1", "9", "echo", "orphan"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 1)
    assert "the parent is gone" in done.stderr
