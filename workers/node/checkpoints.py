"""Checkpoints of runs that were deleted go from the disk: the server says which those are, nobody guesses."""

from __future__ import annotations

import os
import re
from pathlib import Path

import structlog

from trainyard.spooling.held_folder import remove_tree
from workers.node.server_client import ServerClient

log = structlog.get_logger(__name__)

RUN = re.compile(r"[a-z0-9]{1,12}")
MAX_ASKED = 500


def sweep(root: Path, server: ServerClient) -> list[str]:
    """Delete the folders below ``root`` whose runs the server has deleted, and return their names.

    A run that the server merely does not know is left alone: the disk may be another server's too. Raises
    httpx.HTTPError and OSError.
    """
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        here = [one.name for one in entries if RUN.fullmatch(one.name) and one.is_dir(follow_symlinks=False)]
    swept = []
    for start in range(0, len(here), MAX_ASKED):
        asked = here[start : start + MAX_ASKED]
        for run in sorted(set(asked) & server.gone_runs(asked)):
            remove_tree(root / run)  # another node that sees this disk may be at the same
            log.info("checkpoints.swept", run=run)
            swept.append(run)
    return swept
