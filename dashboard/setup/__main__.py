"""`python3 -m dashboard.setup [--for KIND] [-- COMMAND ...]`: set up for run, check, tests, bench, ray or lock, then
become the command."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from functools import partial

from . import machine, node, packages, peers, stamp
from .python import continue_on_supported_python, make_venv
from .steps import ROOT, Beside, SetupError, last_lines, say, step, stop_children


def main(arguments: list[str]) -> int:
    own, command = split_at_dashes(arguments)
    kind = parse(own)
    started_at = time.monotonic()
    try:
        continue_on_supported_python()
        set_up(kind)
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
    if command:
        become(command, time.monotonic() - started_at)
    return 0


def split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Words before the first `--`, which are ours, and those after it, which are a command."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def parse(arguments: list[str]) -> str:
    parser = argparse.ArgumentParser(prog="python3 -m dashboard.setup", description="Make this machine ready.")
    parser.add_argument("--for", dest="kind", choices=[*stamp.KINDS, "bench", "ray", "lock"], default="run")
    return str(parser.parse_args(arguments).kind)


def set_up(kind: str) -> None:
    # Two terminals may say `make` at once: the second waits here and then finds all done.
    with (ROOT / "dashboard" / "setup" / "__init__.py").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kind == "lock":
            make_locks()
            return
        if kind == "bench":
            set_up_kind("check")  # with uPlot, which charts are compared with
            peers.ensure()
            return
        if kind == "ray":
            set_up_kind("tests")
            packages.ensure_ray()
            return
        set_up_kind(kind)


def set_up_kind(kind: str) -> None:
    wanted = stamp.digest()
    if stamp.is_done(kind, wanted):
        return
    started_at = time.monotonic()
    say("Setting up Trainyard (once; later starts skip this)")
    install(kind)
    stamp.write(kind, wanted)
    say(f"Set up in {time.monotonic() - started_at:.1f} s")


def install(kind: str) -> None:
    with step(".venv") as notes:
        notes.append("Python " + ".".join(str(number) for number in sys.version_info[:3]))
        make_venv()
        installer = packages.Installer()
    # npm waits for the network while the Python packages unpack, and the other way round.
    styles = Beside(partial(node.install_node_packages, kind))
    packages.install_lock(installer, kind)
    packages.install_torch(installer)
    packages.install_project(installer)
    styles.join()
    if kind == "tests":
        machine.ensure_test_programs()


def make_locks() -> None:
    make_venv()
    packages.make_locks(packages.Installer())
    node.make_lock()


def become(command: list[str], seconds: float) -> None:
    """Replace this process, so that signals and the exit status are the command's own."""
    os.environ["TRAINYARD_SETUP_SECONDS"] = f"{seconds:.1f}"
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
