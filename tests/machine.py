"""What the tests want of the machine besides Python: a Chromium to drive and PostgreSQL's server programs. Set-up runs
this before the packages of others are at hand: it imports none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from dashboard.postgres_programs import find_postgres_folder
from dashboard.setup.steps import VENV, VENV_PYTHON, SetupError, run, say, step

SHELL = "chromium-headless-shell"  # Debian's name for the program and for its package
WITH_WINDOWS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSERS = VENV / "browsers"  # where Playwright's own download goes, inside the project


def ensure_test_programs() -> None:
    missing = [] if shutil.which(SHELL) else [SHELL]
    if find_postgres_folder() is None:
        missing.append("postgresql")
    if missing and can_use_apt():
        install_what_there_is(missing)
    if find_chromium() is None:
        download_chromium()
    if find_postgres_folder() is None:
        say("  PostgreSQL's server programs are not on this machine: the tests that need them will be skipped.")


def install_what_there_is(missing: list[str]) -> None:
    """Not every distribution has the shell by itself, and who has another Chromium can do without."""
    try:
        install_debian_packages(missing)
    except SetupError:
        others = [name for name in missing if name != SHELL] + ([] if find_chromium() else ["chromium"])
        if others == missing:
            raise
        if others:
            install_debian_packages(others)


def find_chromium(*, with_windows: bool = False) -> Path | None:
    """The Chromium that tests drive: the machine's, else the one that Playwright fetched. The one that has no windows
    comes first, since it draws the same pages with half the work; ``with_windows`` prefers what a person has."""
    for name in (*WITH_WINDOWS, SHELL) if with_windows else (SHELL, *WITH_WINDOWS):
        path = shutil.which(name)
        if path:
            return Path(path)
    fetched = sorted(BROWSERS.glob("chromium*/chrome-*/*"))
    return next((path for path in fetched if path.name in ("chrome", "headless_shell", "chrome-headless-shell")), None)


def can_use_apt(which: Callable[[str], str | None] = shutil.which) -> bool:
    return os.geteuid() == 0 and which("apt-get") is not None


def install_debian_packages(names: list[str]) -> None:
    changes = {"DEBIAN_FRONTEND": "noninteractive"}
    with step("Debian packages for the tests") as notes:
        notes.append(" ".join(names))
        run(["apt-get", "update", "-q"], "apt-get update failed; is the machine online?", changes)
        run(
            ["apt-get", "install", "-q", "-y", "--no-install-recommends", *names],
            f"Debian's packages could not be installed. By hand: apt-get install {' '.join(names)}",
            changes,
        )


def download_chromium() -> None:
    with step("Chromium for the tests"):
        run(
            [VENV_PYTHON, "-m", "playwright", "install", "--only-shell", "chromium"],
            "There is no Chromium for the tests and none could be fetched. Install Chromium (Debian: apt-get install "
            "chromium) and run this again.",
            {"PLAYWRIGHT_BROWSERS_PATH": str(BROWSERS)},
        )
