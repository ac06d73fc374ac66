"""Remembers what was set up, so that set-up is over in a blink when nothing changed."""

from __future__ import annotations

import hashlib
import json
import platform
import sys

from . import node
from .packages import LOCKS, TORCH, has_nvidia_driver
from .steps import ROOT, VENV, VENV_PYTHON

STAMP = VENV / "setup.json"
KINDS = ("run", "check", "tests")  # each holds what the ones before it hold; `bench` is `run` and the peers beside it


def digest() -> str:
    """Changes with everything that decides what is installed."""
    files = [
        *sorted(LOCKS.glob("*.lock")),
        *sorted((ROOT / "dashboard" / "setup").glob("*.py")),
        ROOT / "pyproject.toml",
        ROOT / "package-lock.json",
    ]
    parts = [sys.version, platform.machine(), str(ROOT), TORCH, str(has_nvidia_driver())]
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


def write(kind: str, wanted: str) -> None:
    STAMP.write_text(json.dumps({"digest": wanted, "kind": kind}) + "\n")
