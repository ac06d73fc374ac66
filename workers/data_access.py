"""Folders that a node's recipes and datasets may read: below ``TRAINYARD_DATA_ROOTS`` where somebody set any, and never
in the folders of Trainyard itself."""

import os
from pathlib import Path
from urllib.parse import unquote

from trainyard.formats.addresses import url_problem

ROOTS = "TRAINYARD_DATA_ROOTS"
CLOSED = "TRAINYARD_CLOSED"  # the folders of Trainyard's own, as the node sets it for its children
# What leads to another machine. Of the others some lead back to this one's files: file, local, dir, zip, git, …
REMOTE = frozenset({"http", "https", "ftp", "sftp", "s3", "gs", "gcs", "az", "abfs", "hf"})
ARCHIVES = ("zip://", "tar://")  # of files that may lie anywhere


def location_problem(location: str) -> str:
    """Return why this node does not read from a path or URL that somebody named; empty where it does. Whether a host
    may be asked is seen once its name is resolved, when it is fetched from."""
    head, is_nested, archive = location.partition("::")
    if is_nested and head.startswith(ARCHIVES):
        return location_problem(archive)
    if not location:
        return ""
    scheme, _, rest = location.partition("://")
    if not rest and not location.endswith("://"):
        return path_problem(Path(location))
    if problem := url_problem(location):
        return problem
    given = os.environ.get(ROOTS)
    if not given:
        return path_problem(Path(unquote(rest))) if scheme == "file" else ""
    if scheme in REMOTE and "::" not in location:
        return ""
    able = ", ".join(sorted(REMOTE))
    return f"this node reads local files below {given} only, by their path, and URLs that begin with {able}"


def path_problem(path: Path) -> str:
    """The same of a file or folder, wherever links on its way lead."""
    resolved = path.resolve()
    for closed in _folders(CLOSED):
        if resolved.is_relative_to(closed):
            return f"{path} lies in a folder of Trainyard's own, {closed}, from which no data is read: lay it elsewhere"
    roots = _folders(ROOTS)
    if not roots or any(resolved.is_relative_to(root) for root in roots):
        return ""
    given = os.environ.get(ROOTS, "")
    return f"{path} lies outside of the folders that this node reads data from, {given}: lay it there"


def _folders(variable: str) -> list[Path]:
    return [Path(folder).resolve() for folder in os.environ.get(variable, "").split(os.pathsep) if folder]
