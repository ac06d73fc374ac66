"""Code that comes with the launch form: a folder that the browser sent file by file, or a packed one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest

from trainyard import bundle
from trainyard.bundle import MAX_BYTES, BundleError
from trainyard.code_folder import LEFT_OUT

SMALLER = "choose a smaller folder"


def uploaded(request: HttpRequest) -> bytes | None:
    """Return what was sent as a bundle, None where nothing was. Raises BundleError for what is none."""
    archive = request.FILES.get("archive")
    if isinstance(archive, UploadedFile) and archive.size:
        _check_size(archive.size)
        is_file = (archive.name or "").endswith(".py")
        return pack([archive], [archive.name or ""]) if is_file else bytes(archive.read())
    files = [one for one in request.FILES.getlist("files") if one.name]
    return pack(files, request.POST.getlist("paths")) if files else None


def pack(files: Sequence[UploadedFile[Any]], paths: Sequence[str]) -> bytes:
    """Pack the files under their paths inside the chosen folder; without scripts a browser sends bare names."""
    names = list(paths) if len(paths) == len(files) else [one.name or "" for one in files]
    bundle.check_size({name: one.size or 0 for name, one in zip(names, files, strict=True)}, "the code", SMALLER)
    with tempfile.TemporaryDirectory() as folder:
        for file, name in zip(files, names, strict=True):
            path = _inside(name)
            if LEFT_OUT.isdisjoint(path.parts):
                bundle.check_name(str(path))
                _write(Path(folder, path), file)
        return bundle.pack(Path(folder))[0]


def _write(target: Path, file: UploadedFile[Any]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read())
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise BundleError(f"{target.name!r:.200} and another entry are a file and a folder of one name") from None


def _inside(name: str) -> PurePosixPath:
    """Drop the chosen folder's own name. Raises BundleError for a path that leads out of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.name:
        raise BundleError(f"{name!r:.200} is no path inside the folder")
    return PurePosixPath(*path.parts[1:]) if len(path.parts) > 1 else path


def _check_size(num_bytes: int | None) -> None:
    if num_bytes is not None and num_bytes > MAX_BYTES:
        raise BundleError(f"the code has more than {MAX_BYTES // 2**20} MB; {SMALLER}")
