"""``python -m workers.node.inspection.child PARENT MODULE``: runs the module, but everything else goes before it."""

import contextlib
import os
import runpy
import signal
import sys
from pathlib import Path

from trainyard.contract.base import decode
from workers.machine.processes import die_with_parent, name_process
from workers.sandbox.namespaces import enter_alone
from workers.sandbox.process import SANDBOX, Sandbox

if __name__ == "__main__":
    parent, module = int(sys.argv[1]), sys.argv[2]
    name_process("ty-inspect")
    os.nice(10)
    with contextlib.suppress(OSError):  # not on this system
        Path("/proc/self/oom_score_adj").write_text("1000")  # the first to go when memory is short
    die_with_parent(signal.SIGKILL, parent)
    enter_alone(decode(os.environ.pop(SANDBOX), Sandbox))
    die_with_parent(signal.SIGKILL, parent)  # a change of user resets the signal, and a child has none
    sys.argv[1:] = []
    runpy.run_module(module, run_name="__main__", alter_sys=True)
