"""Where the server keeps files of its own, under TRAINYARD_HOME."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


def run_folder(run_id: str) -> Path:
    return Path(settings.HOME) / "runs" / run_id


def output_folder(run_id: str) -> Path:
    """What rank 0 left in TRAINYARD_OUTPUT, as its node uploaded it."""
    return run_folder(run_id) / "output"


def bundle_path(sha256: str) -> Path:
    """The packed code, under its digest, as it came."""
    return Path(settings.HOME) / "bundles" / sha256[:2] / sha256
