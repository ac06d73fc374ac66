"""`python3 -m dashboard.setup [--for KIND] [-- COMMAND ...]`: set up for run, check or tests; become the command."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from . import node, packages
from .python import continue_on_supported_python, make_venv
from .steps import ROOT, VENV, VENV_PYTHON, SetupError, last_lines, say, step, stop_children

STAMP = VENV / "setup.json"  # so that set-up is over in a blink when nothing changed
KINDS = ("run", "check", "tests")  # each holds what the ones before it hold


def main(arguments: list[str]) -> int:
    own, command = split_at_dashes(arguments)
    kind = parse(own)
    started_at = time.monotonic()
    code = attempt(lambda: set_up(kind))
    if not code and command:
        become(command, time.monotonic() - started_at)
    return code


def attempt(work: Callable[[], object]) -> int:
    """Do the work on a Python that we support, and return the exit status; what stopped it is printed."""
    try:
        continue_on_supported_python()
        work()
        return 0
    except SetupError as error:
        stop_children()
        if error.output.strip():
            print(last_lines(error.output), file=sys.stderr)
        print(f"Set-up stopped: {error.sentence}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        stop_children()
        print("Set-up stopped.", file=sys.stderr)
        return 130


def split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Words before the first `--`, which are ours, and those after it, which are a command."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def parse(arguments: list[str]) -> str:
    parser = argparse.ArgumentParser(prog="python3 -m dashboard.setup", description="Make this machine ready.")
    parser.add_argument("--for", dest="kind", choices=KINDS, default="run")
    return str(parser.parse_args(arguments).kind)


def set_up(kind: str) -> None:
    # Two terminals may say `make` at once: the second waits here and then finds all done.
    with (ROOT / "dashboard" / "setup" / "__init__.py").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = digest()
        if is_done(kind, wanted):
            return
        started_at = time.monotonic()
        say("Setting up Trainyard (once; later starts skip this)")
        install(kind)
        write_stamp(kind, wanted)
        say(f"Set up in {time.monotonic() - started_at:.1f} s")


def digest() -> str:
    """Changes with everything that decides what is installed."""
    files = [
        *sorted(packages.LOCKS.glob("*.lock")),
        *sorted((ROOT / "dashboard" / "setup").glob("*.py")),
        ROOT / "pyproject.toml",
        ROOT / "package-lock.json",
    ]
    parts = [sys.version, platform.machine(), str(ROOT), packages.TORCH, str(packages.has_nvidia_driver())]
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    return hashlib.sha256("\n".join([*parts, *sums]).encode()).hexdigest()


def is_done(kind: str, wanted: str) -> bool:
    """Whether a set-up of this kind, or of one that holds it, was finished with this digest and is still there."""
    if not VENV_PYTHON.exists() or not node.STAMP.exists():
        return False
    try:
        stamp = json.loads(STAMP.read_text())
        return bool(stamp["digest"] == wanted and KINDS.index(stamp["kind"]) >= KINDS.index(kind))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_stamp(kind: str, wanted: str) -> None:
    STAMP.write_text(json.dumps({"digest": wanted, "kind": kind}) + "\n")


def install(kind: str) -> None:
    with step(".venv") as notes:
        notes.append("Python " + ".".join(str(number) for number in sys.version_info[:3]))
        make_venv()
        installer = packages.Installer()
    # npm waits for the network while the Python packages unpack, and the other way round.
    # Not waited for where something else fails: `stop_children` ends it.
    styles = ThreadPoolExecutor(1).submit(node.install_node_packages, kind)
    packages.install_lock(installer, kind)
    packages.install_torch(installer)
    packages.install_project(installer)
    styles.result()
    if kind == "tests":
        from tests import machine  # the tests' own, of a checkout

        machine.ensure_test_programs()


def become(command: list[str], seconds: float) -> None:
    """Replace this process, so that signals and the exit status are the command's own."""
    os.environ["TRAINYARD_SETUP_SECONDS"] = f"{seconds:.1f}"
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
