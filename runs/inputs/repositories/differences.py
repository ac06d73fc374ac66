"""Differences between two commits of a repository, from the server's copy alone."""

from typing import NamedTuple

from runs.inputs.repositories.command import CommandLimits, run_git
from runs.inputs.repositories.mirrors import mirror_folder
from runs.inputs.repositories.problems import GitFailed, RepositoryProblem
from runs.models import Project, RunCode

MAX_CHARACTERS = 300_000
LIMITS = CommandLimits(time_s=10.0)


class Difference(NamedTuple):
    patch: str
    is_cut: bool


def difference(project: Project, code: RunCode) -> Difference | None:
    """Return what the commit of the run changes in that of the run before; None where there was none, or where the copy
    of the repository has gone since."""
    folder = mirror_folder(project.pk, code.url)
    if not code.previous or not folder.is_dir():
        return None
    words = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", code.previous, code.commit, "--"]
    try:
        text = run_git([*words, code.path or "."], repository=folder, limits=LIMITS).decode(errors="replace")
    except (GitFailed, RepositoryProblem):
        return None
    return Difference(text[:MAX_CHARACTERS], len(text) > MAX_CHARACTERS)
