"""Supervisors that live and do not go on."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.workers.control import until
from workers.node import dead_supervisors
from workers.node.dead_supervisors import Standstills


def test_one_that_was_stopped_before_the_node_worker_began_to_look_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_supervisors, "STOPPED_LIMIT_S", 1.0)
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        try:
            os.kill(supervisor.pid, signal.SIGSTOP)
            standstills = Standstills()

            def is_ended() -> bool:
                standstills.look({"a": supervisor.pid}, may_end=lambda _: True)
                return supervisor.poll() is not None

            until(is_ended, 10.0)
        finally:
            supervisor.kill()
    assert standstills.killed == {"a": "supervisor_stopped"}
