"""Which Python the project runs on, and the virtual environment made of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from .steps import ROOT, VENV, VENV_PYTHON, SetupError, run

OLDEST = (3, 11)
NEWEST = (3, 14)
NAMES = ("python3.11", "python3.12", "python3.13", "python3.14")
PLACE = VENV / "place"  # the folder that `.venv` was made in


def is_supported(version: tuple[int, ...]) -> bool:
    return OLDEST <= tuple(version[:2]) <= NEWEST


def version_of(command: str) -> tuple[int, ...] | None:
    """The version that `command` answers, or None: pyenv leaves names on PATH that do not run."""
    try:
        answer = subprocess.run(
            [command, "-c", "import sys; print(*sys.version_info[:3])"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return tuple(int(number) for number in answer.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def find_supported() -> str:
    """A supported Python on PATH. Raises SetupError where there is none."""
    for name in NAMES:
        path = shutil.which(name)
        if path and is_supported(version_of(path) or ()):
            return path
    has = ".".join(str(number) for number in sys.version_info[:3])
    raise SetupError(
        f"Trainyard needs Python 3.11 to 3.14 and found {has}. "
        "Install python3.11 (on Debian 12: apt-get install python3 python3-pip) and run this again."
    )


def continue_on_supported_python() -> None:
    """Start this program again under a Python that will do, if this one will not."""
    if is_supported(sys.version_info[:3]):
        return
    python = find_supported()
    program = sys.modules["__main__"].__spec__
    assert program is not None, "it is started by -m"
    os.execv(python, [python, "-m", program.name, *sys.argv[1:]])


def make_venv() -> None:
    """Make `.venv`, or keep the one there. Needs no ensurepip, which Debian ships apart."""
    if is_usable_venv():
        return
    run(
        [sys.executable, "-m", "venv", "--without-pip", "--clear", VENV],
        f"Could not make {VENV}. On Debian the module is in the package python3-venv: apt-get install python3-venv",
    )
    PLACE.write_text(str(ROOT))


def is_usable_venv() -> bool:
    """Of this Python and made in this folder: the programs in a moved or copied `.venv` still name the old one."""
    if not VENV_PYTHON.exists() or not PLACE.exists() or PLACE.read_text().strip() != str(ROOT):
        return False
    return version_of(str(VENV_PYTHON)) == tuple(sys.version_info[:3])


def pip_command() -> list[str]:
    """This Python's pip as words. Raises SetupError where it has none."""
    words = [sys.executable, "-m", "pip"]
    run(
        [*words, "--version"],
        f"{sys.executable} has no pip. On Debian: apt-get install python3-pip; elsewhere: "
        f"{sys.executable} -m ensurepip. Then run this again.",
    )
    return words
