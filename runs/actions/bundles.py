"""Code that people ship: kept as the bytes that came, under their digest. It is unpacked to check it, never run."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from runs.access import require
from runs.files.paths import bundle_path
from runs.models import CodeBundle, Project, Role, User
from trainyard import bundle


def store_bundle(*, actor: User, project: Project, data: bytes) -> CodeBundle:
    """Check and keep a packed folder; the same bytes again are the same bundle. Raises ValueError for a bad archive."""
    require(actor, project, Role.MEMBER)
    sha256, files = hashlib.sha256(data).hexdigest(), _files_in(data)
    path = bundle_path(sha256)
    if not path.exists():
        _write(path, data)
    row, _ = CodeBundle.objects.get_or_create(
        project=project,
        sha256=sha256,
        defaults={"size_bytes": len(data), "files": files, "created_by": actor},
    )
    return row


def _files_in(data: bytes) -> list[str]:
    """Return the paths inside the archive, by unpacking it as a node would: what a node refuses is refused here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle.unpack(data, folder)
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _write(path: Path, data: bytes) -> None:
    """Write a file that is either whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(name).replace(path)
