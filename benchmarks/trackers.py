"""The trackers that `make bench` compares with, in an environment of their own: nothing of ours may import them."""

from __future__ import annotations

import hashlib
import sys

from dashboard.setup.packages import LOCKS, PINNED, Installer
from dashboard.setup.steps import ROOT, SetupError, last_lines, run, say, step

NAMES = ("trackio", "tensorboard", "mlflow", "wandb", "ray[tune]")
FOLDER = ROOT / ".venv-peers"
PYTHON = FOLDER / "bin" / "python"
LOCK = LOCKS / "peers.lock"
STAMP = FOLDER / "setup.txt"


def ensure() -> None:
    """Install the peers, once. One that cannot be installed is named and left out: the benchmarks report it too."""
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode() + str(ROOT).encode()).hexdigest()
    if PYTHON.exists() and STAMP.exists() and STAMP.read_text() == wanted:
        return
    with step("Trackers to compare with") as notes:
        run([sys.executable, "-m", "venv", "--without-pip", "--clear", FOLDER], f"Could not make {FOLDER}.")
        installer = Installer(PYTHON)
        try:
            installer.install([*PINNED, LOCK], "The trackers could not be installed together.")
            missing = []
        except SetupError:
            missing = one_by_one(installer)
        notes.append("by " + installer.name)
    if missing:
        return  # and no stamp: the next time may be luckier
    STAMP.write_text(wanted)


def one_by_one(installer: Installer) -> list[str]:
    """Install each of them with what it needs, in the locked versions. Returns those that could not be."""
    missing = []
    for name in NAMES:
        try:
            installer.install(["-c", LOCK, name], f"{name} could not be installed.")
        except SetupError as error:
            missing.append(name)
            say(f"  {error.sentence} It is not compared with.\n{last_lines(error.output, 3)}")
    return missing


if __name__ == "__main__":
    ensure()
