"""A node worker that a fault of native code ends says in its log where it was."""

from __future__ import annotations

import os
import signal

from tests.workers.control import ControlledNode, until


def test_a_segmentation_fault_leaves_the_stacks_of_all_threads(bare_node: ControlledNode) -> None:
    until(bare_node.up)
    assert bare_node.process is not None
    os.kill(bare_node.process.pid, signal.SIGSEGV)
    assert bare_node.process.wait(timeout=20) == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in bare_node.log() and "workers/node" in bare_node.log()
