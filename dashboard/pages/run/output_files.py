"""The files that a run left in its output folder, for its Files tab."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

from runs import actions
from runs.files import outputs
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
    found = sorted(outputs.listing(run.pk), key=lambda one: PurePosixPath(one["path"]))
    url = f"/api/v1/runs/{run.pk}/files"
    return [
        OutputFile(
            one["path"], one["size_bytes"], datetime.fromisoformat(one["modified_at"]), f"{url}/{quote(one['path'])}"
        )
        for one in found[:MAX_FILES]
    ]


class OnNode(NamedTuple):
    """What one node still has of the run. ``files`` are (path, size, what has gone of it or None)."""

    node: str
    files: Sequence[tuple[str, int, int | None]]
    num_files: int
    size: int | None
    refused: list[tuple[str, str]]
    decided: str = ""


def on_the_way(run: Run) -> list[OnNode]:
    """Return what nodes of the newest attempt have that is not sent yet."""
    attempt = run.attempts.order_by("-number").first()
    found = []
    for one in attempt.placements.select_related("node") if attempt is not None else ():
        pending, sending = one.output_state.pending, one.output_state.sending
        if pending and one.done_at is None:
            files = [(path, size, sending.get(path)) for path, size in pending.items()]
            found.append(OnNode(one.node.name, files, one.output_state.num_pending, None, []))
    return found


def left_on_nodes(run: Run) -> list[OnNode]:
    """Return what waits on nodes for somebody's word."""
    found = []
    for one in actions.undecided(run):
        files = [(str(file["path"]), int(file["size_bytes"]), None) for file in one.gained.get("files", [])]
        refused = list(one.output_state.refused.items())
        size = int(one.gained.get("bytes") or 0)
        name = f"{one.node.name}, attempt {one.attempt.number}" if one.attempt.number > 1 else one.node.name
        found.append(OnNode(name, files, int(one.gained.get("num_files") or 0), size, refused, one.leftovers))
    return found
