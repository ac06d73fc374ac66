"""Code that people ship: kept as the bytes that came, under their digest. It is unpacked to check it, never run."""

import hashlib
import tempfile
from pathlib import Path

from django.utils import timezone

from runs.inputs.repositories.pinning import PinnedCode, pin
from runs.inputs.repositories.problems import RepositoryProblem
from runs.models import CodeBundle, Project, User
from runs.privacy.retention import require_room
from runs.records.files.paths import bundle_path, bundles_locked
from runs.rights.access import Permission, require
from trainyard import bundle
from trainyard.spec import Problem, ScriptSpec, Spec, SpecError
from trainyard.spooling.plain_files import write_private


def store_bundle(*, actor: User, project: Project, data: bytes) -> CodeBundle:
    """Check and keep a packed folder; the same bytes again are the same bundle. Raises ValueError for a bad archive,
    Refused where the project's quota has no room for it."""
    require(actor, project, Permission.RUNS_LAUNCH)
    sha256, files = hashlib.sha256(data).hexdigest(), _files_in(data)
    path = bundle_path(sha256)
    with bundles_locked():
        row = project.bundles.filter(sha256=sha256).first()
        if row is None:
            require_room(project, len(data))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(path, data)
        if row is not None:
            row.created_at = timezone.now()  # what is unused goes some time after it came last
            row.save(update_fields=["created_at"])
            return row
        return CodeBundle.objects.create(
            project=project, sha256=sha256, size_bytes=len(data), files=files, created_by=actor
        )


def _files_in(data: bytes) -> list[str]:
    """Return the paths inside the archive, by unpacking it as a node would: what a node refuses is refused here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle.unpack(data, folder)
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def pin_code(*, actor: User, project: Project, spec: Spec) -> PinnedCode | None:
    """Fetch the commit that a script's code is to be, and keep its files as a bundle; None for other code. Raises
    SpecError, with the field of ``task`` that is wrong."""
    if not isinstance(spec, ScriptSpec) or (code := spec.git_code) is None:
        return None
    try:
        pinned = pin(project, code, lambda data: store_bundle(actor=actor, project=project, data=data))
    except RepositoryProblem as problem:
        raise SpecError([Problem(f"task.code.{problem.field}", str(problem))]) from None
    except ValueError as error:
        raise SpecError([Problem("task.code", str(error))]) from None
    field, words = spec.task.missing_in(pinned.bundle.files)
    if field:
        where = f" of {code.path}" if code.path else ""
        raise SpecError([Problem(f"task.{field}", f"{words}{where} at commit {pinned.commit.number[:12]}")])
    return pinned
