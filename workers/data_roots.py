"""``TRAINYARD_DATA_ROOTS``: the folders below which a node's recipes and datasets may read, where somebody set any."""

from __future__ import annotations

import os
from pathlib import Path

ROOTS = "TRAINYARD_DATA_ROOTS"
# What leads to another machine. Of the others some lead back to this one's files: file, local, dir, zip, git, …
REMOTE = frozenset({"http", "https", "ftp", "sftp", "s3", "gs", "gcs", "az", "abfs", "hf"})
ARCHIVES = ("zip://", "tar://")  # of files that may lie anywhere


def location_problem(location: str) -> str:
    """Return why this node does not read from a path or URL that somebody named; empty where it does."""
    if not location or not (given := os.environ.get(ROOTS)):
        return ""
    head, is_nested, archive = location.partition("::")
    if is_nested and head.startswith(ARCHIVES):
        return location_problem(archive)
    scheme, _, rest = location.partition("://")
    if not rest and not location.endswith("://"):
        return path_problem(Path(location))
    if scheme in REMOTE and "::" not in location:
        return ""
    able = ", ".join(sorted(REMOTE))
    return f"this node reads local files below {given} only, by their path, and URLs that begin with {able}"


def path_problem(path: Path) -> str:
    """The same of a file or folder, wherever links on its way lead."""
    given = os.environ.get(ROOTS, "")
    roots = [Path(root).resolve() for root in given.split(os.pathsep) if root]
    if not roots or any(path.resolve().is_relative_to(root) for root in roots):
        return ""
    return f"{path} lies outside of the folders that this node reads data from, {given}: lay it there"
