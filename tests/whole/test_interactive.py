"""Commands beside the ranks of a live run: from the command line to the node and back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.browser.conftest import tiny
from tests.up_process import OURS, ROOT, Up
from tests.whole.runs import Yard

pytestmark = pytest.mark.extended


def trainyard(up: Up, *words: str, data: bytes = b"", limit_s: float = 120) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "trainyard", *words], cwd=ROOT, env=environment(up), capture_output=True, input=data,
        timeout=limit_s, check=False,
    )  # fmt: skip


def environment(up: Up) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return inherited | {"TRAINYARD_HOME": str(up.home)}


@pytest.fixture
def run(yard: Yard) -> Iterator[str]:
    run_id = yard.submit(tiny("visited", steps=1_000_000) | {"resources": {"nodes": 2}})
    yard.wait_for_step(run_id, 2)
    yield run_id
    yard.post(f"/runs/{run_id}/stop")
    yard.wait_for_end(run_id)


def test_a_command_runs_as_its_rank_does(running_trainyard: Up, yard: Yard, run: str) -> None:
    script = "echo $RANK $(kill -0 $RANK_PID && echo alive); pwd; cat; echo wrong >&2; exit 7"
    words = ("exec", run, "--rank", "1", "-i", "--", "sh", "-c", script)
    done = trainyard(running_trainyard, *words, data=b"x" * 600_000)
    first, folder, rest = done.stdout.split(b"\n", 2)
    assert (done.returncode, done.stderr) == (7, b"wrong\n"), done
    assert first.split() == [b"1", b"alive"]
    assert folder.endswith(b"/code")
    assert rest == b"x" * 600_000, "more than fits on the way at once, in both directions"

    events = {event["code"]: event for event in yard.get(f"/runs/{run}/events")["items"]}
    assert "began the command sh -c" in events["session-began"]["sentence"]
    assert "600,000 bytes sent" in events["session-ended"]["sentence"]


def test_what_is_not_there_and_what_takes_too_long_is_named(running_trainyard: Up, run: str) -> None:
    missing = trainyard(running_trainyard, "exec", run, "--", "no-such-program")
    assert (missing.returncode, missing.stderr) == (127, b"trainyard: no-such-program: not found on this node\n")
    late = trainyard(running_trainyard, "exec", run, "--timeout", "1", "--", "sleep", "600")
    assert (late.returncode, late.stderr) == (124, b"The command was ended after its 1 s.\n")
    elsewhere = trainyard(running_trainyard, "exec", run, "--rank", "9", "--", "true")
    assert (elsewhere.returncode, elsewhere.stderr) == (1, b"Run visited has no rank 9; it has the ranks 0 to 1.\n")
