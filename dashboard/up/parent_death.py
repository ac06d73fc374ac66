"""`python parent_death.py PARENT SIGNAL COMMAND…`: become the command, and get SIGNAL when the parent dies, in any way.

The parent-death signal survives exec, so a program that knows nothing of us is tied as well. It follows the *thread*
that started us: whoever starts children with this must do it from a thread that lives as long as the process.
This file is run by its path, without the package around it, and imports as little as it can: it costs 15 ms.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tethered(command: list[str], death_signal: int = signal.SIGKILL) -> list[str]:
    """Return ``command`` tied to this process. Where there is no parent-death signal (macOS) it stays as it is."""
    if sys.platform != "linux":
        return command
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(int(death_signal)), *command]


def main() -> None:
    parent, death_signal, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died before we were tied
        sys.exit(f"{command[0]}: the parent is gone")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
