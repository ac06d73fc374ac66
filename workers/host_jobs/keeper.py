"""``python -m workers.host_jobs.keeper FOLDER COMMAND…``: keep one node until its end, and end what it leaves.

It adopts orphans, so supervisors that outlive their node worker are its own, and end with it. Where the keeper itself
is killed, the node and its supervisors end by the pipe that it holds.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from trainyard.contract.base import encode
from trainyard.lifeline import VARIABLE
from trainyard.spooling.plain_files import write_private
from workers.host_jobs.jobs import EndMark, JobFolder, KeeperMark, boot_id
from workers.machine.processes import adopt_orphans, identify, kill_children, name_process, send

STOP_LIMIT_S = 40.0  # from the request to end until everything is killed; a node sends its last records meanwhile
NOT_FOUND = 127


def main(argv: list[str]) -> int:
    folder, command = JobFolder(Path(argv[0])), argv[1:]
    try:
        folder.claim.mkdir()
    except FileExistsError:  # another one keeps it
        return 0
    own = identify(os.getpid())
    write_private(folder.path / "keeper.json", encode(KeeperMark(own.pid, own.start, boot_id(), time.time())))
    name_process("ty-keeper")
    adopt_orphans()
    code = keep(command)
    kill_children()
    write_private(folder.path / "end.json", encode(EndMark(code, time.time())))
    return 0


def keep(command: list[str]) -> int:
    """Run the command to its end and return its exit code; of one that a signal ended, 128 and the signal."""
    ours, theirs = os.pipe()
    try:
        env = {**os.environ, VARIABLE: str(ours)}
        node = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, pass_fds=(ours,))
    except OSError as error:
        print(f"{command[0]}: {error.strerror or error}.", file=sys.stderr, flush=True)
        return NOT_FOUND
    finally:
        os.close(ours)
    signal.signal(signal.SIGTERM, Ending(node.pid).take)
    signal.signal(signal.SIGURG, lambda *_: send(node.pid, signal.SIGURG))  # a notice
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == node.pid:
            node.returncode = os.waitstatus_to_exitcode(status)
            os.close(theirs)
            return node.returncode if node.returncode >= 0 else 128 - node.returncode


class Ending:
    """Passes on one request to end, and kills what has not ended by then."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._is_asked = False

    def take(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        if self._is_asked:
            return
        self._is_asked = True
        send(self._pid, signal.SIGTERM)
        threading.Thread(target=self._insist, daemon=True).start()

    def _insist(self) -> None:
        time.sleep(STOP_LIMIT_S)
        send(self._pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
