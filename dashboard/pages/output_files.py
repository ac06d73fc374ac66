"""The files that a run left in its output folder, for its Files tab."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from runs import places
from runs.models import Run

MAX_FILES = 2000


class OutputFile(NamedTuple):
    path: str
    size: int
    at: datetime
    url: str


def is_trace(file: OutputFile) -> bool:
    """Whether a rank traced some of its steps into it."""
    return file.path.startswith("traces/") and file.path.endswith(".json.gz")


def listed(run: Run) -> list[OutputFile]:
    folder = places.output_folder(run.pk)
    found = []
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_file():
            continue
        name, facts = path.relative_to(folder).as_posix(), path.stat()
        url = f"/api/v1/runs/{run.pk}/files/{quote(name)}"
        found.append(OutputFile(name, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC), url))
    return found[:MAX_FILES]
