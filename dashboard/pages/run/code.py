"""The commit that a run from Git was made of, as its page shows it."""

from __future__ import annotations

from typing import NamedTuple

from runs.models import Run, RunCode
from runs.repositories.differences import MAX_CHARACTERS, difference

MAX_LINES = 2_000


class DiffLine(NamedTuple):
    text: str
    kind: str  # a class of the page: added, removed, place, file, or none


class CodeView(NamedTuple):
    code: RunCode
    changes: list[DiffLine]  # since the run before
    patch: list[DiffLine]  # over the commit
    has_previous: bool  # whose commit is still here
    is_cut: bool


def code_view(run: Run) -> CodeView | None:
    """None for a run whose code is not from Git."""
    code = RunCode.objects.filter(run=run).first()
    if code is None:
        return None
    found = difference(run.project, code)
    patch = run.spec["task"]["code"].get("patch") or ""
    changes = _lines(found.patch) if found else []
    return CodeView(
        code=code,
        changes=changes[:MAX_LINES],
        patch=_lines(patch)[:MAX_LINES],
        has_previous=found is not None,
        is_cut=len(changes) > MAX_LINES or bool(found and found.is_cut),
    )


def _lines(patch: str) -> list[DiffLine]:
    return [DiffLine(line, _kind(line)) for line in patch[:MAX_CHARACTERS].splitlines()]


def _kind(line: str) -> str:
    if line.startswith(("diff ", "+++ ", "--- ", "index ", "new file", "deleted file", "rename ", "similarity ")):
        return "file"
    return {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "")
