"""Pinning of a repository that a spec names: to one commit, and the bundle of its files."""

import time
from collections.abc import Callable
from typing import NamedTuple

from runs.inputs.repositories.mirrors import Commit, Mirror
from runs.inputs.repositories.problems import GitFailed, RepositoryProblem
from runs.inputs.repositories.trees import TreeReader
from runs.models import CodeBundle, Project, Run, RunCode
from trainyard.spec.values.code import GitCode


class PinnedCode(NamedTuple):
    """Code of every attempt of a run, whatever its branch does."""

    code: GitCode
    commit: Commit
    bundle: CodeBundle
    remarks: list[str]
    fetch_s: float

    def keep(self, run: Run) -> RunCode:
        """Write it down for the run."""
        before = RunCode.objects.filter(run__project=run.project_id, url=self.code.git, path=self.code.path)
        return RunCode.objects.create(
            run=run,
            sha256=self.bundle.sha256,
            url=self.code.git,
            commit=self.commit.number,
            branch=self.commit.branch,
            path=self.code.path,
            subject=self.commit.subject,
            author=self.commit.author,
            authored_at=self.commit.authored_at,
            previous=before.order_by("-run__created_at").values_list("commit", flat=True).first() or "",
            remarks=self.remarks,
            fetch_s=self.fetch_s,
        )


def pin(project: Project, code: GitCode, store: Callable[[bytes], CodeBundle]) -> PinnedCode:
    """Fetch the commit that the revision names now, and have its files kept by ``store``, once for each commit. Raises
    RepositoryProblem."""
    started = time.monotonic()
    mirror = Mirror(project, code.git)
    try:
        commit = mirror.commit(code.revision)
        bundle, remarks = _packed_before(project, code, commit) or (None, [])
        if bundle is None:
            packed = TreeReader(project, code).pack(mirror, commit.number)
            bundle, remarks = store(packed.data), packed.remarks
    except GitFailed as error:
        words = (error.stderr.strip().splitlines() or ["no reason"])[-1][:300]
        raise RepositoryProblem("git", f"{code.git} cannot be read: {words}") from None
    return PinnedCode(code, commit, bundle, remarks, time.monotonic() - started)


def _packed_before(project: Project, code: GitCode, commit: Commit) -> tuple[CodeBundle, list[str]] | None:
    """Return the bundle of a run of the same commit and the same choices."""
    asked = {"git": code.git, "path": code.path, "submodules": code.submodules, "lfs": code.lfs, "patch": code.patch}
    same = RunCode.objects.filter(run__project=project, url=code.git, commit=commit.number, path=code.path)
    for one in same.select_related("run").order_by("-run__created_at")[:5]:
        before = one.run.spec.get("task", {}).get("code", {})
        if {name: {"lfs": False, **before}.get(name) for name in asked} == asked:
            found = CodeBundle.objects.filter(project=project, sha256=one.sha256).first()
            if found is not None:
                return found, list(one.remarks)
    return None
