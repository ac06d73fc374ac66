"""A process with a lifeline ends when whoever holds the other end is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from trainyard import lifeline

SLEEPER = """
import sys, time
from trainyard import lifeline
{before}
print(lifeline.watch(grace_s=0.2), flush=True)
{after}
time.sleep(60)
"""


def start(descriptor: int | None, before: str = "", after: str = "") -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != lifeline.VARIABLE}
    if descriptor is not None:
        environment[lifeline.VARIABLE] = str(descriptor)
    program = SLEEPER.format(before=before, after=after)
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, text=True, stdout=subprocess.PIPE,
        pass_fds=[descriptor] if descriptor is not None else [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "code"), [("", -15), ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", 1)]
)
def test_it_is_asked_to_stop_and_then_made_to(before: str, code: int) -> None:
    ours, theirs = os.pipe()
    with start(ours, before) as process:
        os.close(ours)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        os.close(theirs)
        assert process.wait(30) == code


def test_without_a_pipe_nothing_is_watched() -> None:
    with start(None, after="raise SystemExit(7)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "False\n"
        assert process.wait(30) == 7


def test_a_process_that_is_watched_hands_the_pipe_to_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    monkeypatch.setenv(lifeline.VARIABLE, str(ours))
    ended = threading.Event()
    monkeypatch.setattr(lifeline, "stop", lambda grace_s: ended.set())
    assert lifeline.watch()
    assert not os.get_inheritable(ours)
    os.close(theirs)
    assert ended.wait(30)
    os.close(ours)
