"""Which processes count as at work: real ones, in pairs of a healthy script and one that waits for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.workers.control import until
from workers.machine.processes import is_stopped
from workers.supervisor.ranks.activity import WorkMeter

LOOK_S = 2.0
LOADER = """
import time
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, place):
        if place == 3:
            print("on", flush=True)
            time.sleep(3600)
        return 0

for row in DataLoader(Rows(), batch_size=1, num_workers=2):
    pass
"""
AT_WORK = {
    "ten short steps a second": "on()\nwhile True: time.sleep(0.1)",
    "690 steps in 8 minutes": "on()\nwhile True:\n    sum(range(20_000))\n    time.sleep(0.7)",
    "a child steps": "on()\nif os.fork(): os.wait()\nwhile True: time.sleep(0.1)",
    "a thread copies a file": (
        "data = open('/dev/zero', 'rb'); copy = open('/dev/null', 'wb')\n"
        "def work():\n    while True:\n        copy.write(data.read(1 << 18)); time.sleep(0.1)\n"
        "threading.Thread(target=work).start()\non()\nthreading.Event().wait()"
    ),
}
WAITING = {
    "a lock": "on()\nlock = threading.Lock()\nwith lock, lock: pass",
    "an answer": "a, b = socket.socketpair()\non()\na.recv(1)",
    "a file's lock": (
        "import fcntl, tempfile\nfile = tempfile.NamedTemporaryFile()\nfcntl.flock(file, fcntl.LOCK_EX)\n"
        "on()\nfcntl.flock(open(file.name), fcntl.LOCK_EX)"
    ),
    "a child that waits": "on()\nos.wait() if os.fork() else threading.Event().wait()",
    "a thread that looks for news": (
        "def look():\n    while True: time.sleep(0.02)\nthreading.Thread(target=look).start()\n"
        "on()\nthreading.Event().wait()"
    ),
    "a DataLoader whose worker hangs": LOADER,
}
IMPORTS = "import os, socket, threading, time\ndef on(): print('on', flush=True)\n"


@contextmanager
def started(script: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", IMPORTS + script], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"on\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def seen_at_work(scripts: Mapping[str, str], number: int) -> set[str]:
    """Return which of the scripts, all started at once, are at work in one of so many looks."""
    found: set[str] = set()
    with ExitStack() as stack:
        pids = {name: stack.enter_context(started(script)) for name, script in scripts.items()}
        time.sleep(0.5)  # what follows their signs
        meters = {name: WorkMeter() for name in pids}
        assert all(meters[name].has_worked(pid, 0.0) for name, pid in pids.items())
        for _ in range(number):
            began = time.monotonic()
            time.sleep(LOOK_S)
            found |= {name for name, pid in pids.items() if meters[name].has_worked(pid, time.monotonic() - began)}
    return found


def test_scripts_that_need_little_of_a_core_are_seen_at_work_and_those_that_wait_for_ever_are_not() -> None:
    assert seen_at_work(AT_WORK | WAITING, 4) == set(AT_WORK)


def test_a_stopped_process_is_not() -> None:
    with started(AT_WORK["ten short steps a second"]) as pid:
        meter = WorkMeter()
        os.kill(pid, signal.SIGSTOP)
        until(lambda: is_stopped(pid))
        meter.has_worked(pid, 0.0)
        time.sleep(LOOK_S)
        assert not meter.has_worked(pid, LOOK_S)
