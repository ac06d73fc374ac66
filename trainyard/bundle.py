"""Code bundles: a folder as a gzipped tar, the same bytes for the same files, and unpacked without trust.

A bundle holds regular files and nothing else. Whoever unpacks one gets no link, no device, no path that leads out of
the folder, and no more than MAX_BYTES, whatever the archive says.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MAX_BYTES = 50 * 1024 * 1024
MAX_FILES = 10_000
LEFT_OUT = frozenset({".git", "__pycache__", ".venv", ".trainyard", "trainyard-spool"})
_MAX_PATH_CHARS = 500
_MAX_PART_BYTES = 255  # what file systems take as one name
_HEADER_BYTES = 2048  # of a file in a tar, with its padding and, for a long name, the extra header


class Content(NamedTuple):
    """One file of a bundle."""

    name: str
    is_executable: bool
    data: bytes


class BundleError(ValueError):
    """The folder cannot be packed, or the bytes are no bundle."""


def pack(folder: Path) -> tuple[bytes, str, list[str]]:
    """Return ``folder``, or a file alone, as bundle, its SHA-256 and the paths inside. Raises BundleError, naming what
    is in the way.

    Names in LEFT_OUT stay out, at any depth. A link is followed where it leads to a file inside the folder.
    """
    folder = folder.resolve()
    alone = folder if folder.is_file() else None
    if alone is not None:
        folder = alone.parent
    elif not folder.is_dir():
        raise BundleError(f"{folder} is no folder and no file")
    paths = [alone] if alone is not None else _files(folder)
    return pack_contents(
        (Content(path.relative_to(folder).as_posix(), os.access(path, os.X_OK), path.read_bytes()) for path in paths),
        str(folder),
    )


def pack_contents(contents: Iterable[Content], source: str = "the code") -> tuple[bytes, str, list[str]]:
    """Return files as bundle, its SHA-256 and their paths. Raises BundleError. ``source`` is what they are called."""
    names: list[str] = []
    total = 0
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, is_executable, content in contents:
            check_name(name)
            total += len(content)
            names.append(name)
            if total > MAX_BYTES or len(names) > MAX_FILES:
                raise BundleError(
                    f"{source} has more than {MAX_BYTES // 2**20} MB or {MAX_FILES:,} files; "
                    "point code at a smaller folder"
                )
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if is_executable else 0o644
            archive.addfile(entry, io.BytesIO(content))
    data = gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)
    return data, hashlib.sha256(data).hexdigest(), names


def unpack(data: bytes, folder: Path) -> list[str]:
    """Write the bundle's files below ``folder`` and return their paths. Raises BundleError before it writes any."""
    try:
        with tarfile.open(fileobj=io.BytesIO(_decompress(data)), mode="r:") as archive:
            contents = list(_read(archive))
    except (tarfile.TarError, UnicodeError, ValueError, OverflowError) as error:
        raise error if isinstance(error, BundleError) else BundleError(f"no code bundle: {error}") from None
    for name, mode, content in contents:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    return [name for name, _, _ in contents]


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below ``folder``, sorted. Raises BundleError for what is neither file nor folder."""
    for above, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        for name in [*folders, *sorted(set(names) - LEFT_OUT)]:
            path = Path(above, name)
            if path.is_symlink() and not (path.is_file() and path.resolve().is_relative_to(folder)):
                raise BundleError(f"{path.relative_to(folder)} is a link that leads to no file inside the folder")
            if path.is_dir():
                continue
            if not path.is_file():
                raise BundleError(f"{path.relative_to(folder)} is no regular file")
            yield path


def _decompress(data: bytes) -> bytes:
    limit = MAX_BYTES + MAX_FILES * _HEADER_BYTES
    stream = zlib.decompressobj(wbits=31)
    try:
        plain = stream.decompress(data, limit)
    except zlib.error as error:
        raise BundleError(f"no code bundle: {error}") from None
    if stream.unconsumed_tail or (not stream.eof and len(plain) >= limit):
        raise BundleError(f"the bundle unpacks to more than {MAX_BYTES // 2**20} MB")
    if not stream.eof or stream.unused_data:
        raise BundleError("no code bundle: the archive is cut off, or something follows it")
    return plain


def _read(archive: tarfile.TarFile) -> Iterator[tuple[str, int, bytes]]:
    seen: set[str] = set()
    folders: set[str] = set()
    total = 0
    for entry in archive:
        if entry.isdir():
            continue
        check_name(entry.name)
        if not entry.isreg() or entry.issparse():
            raise BundleError(f"{entry.name!r} is a link or a device; a bundle has files only")
        if entry.name in seen or len(seen) >= MAX_FILES:
            raise BundleError(f"{entry.name!r} is there twice, or there are more than {MAX_FILES:,} files")
        folders.update(str(path) for path in PurePosixPath(entry.name).parents)
        seen.add(entry.name)
        if folders & seen:
            raise BundleError(f"{entry.name!r} and another entry are a file and a folder of one name")
        file = archive.extractfile(entry)
        content = file.read() if file else b""
        total += len(content)
        if len(content) != entry.size or total > MAX_BYTES:
            raise BundleError(f"{entry.name!r} is cut off, or there are more than {MAX_BYTES // 2**20} MB")
        yield entry.name, 0o755 if entry.mode & 0o100 else 0o644, content


def check_name(name: str) -> None:
    """Raise BundleError unless this is a plain path inside the folder that every file system takes."""
    path = PurePosixPath(name)
    is_plain = name.isprintable() and "\\" not in name and len(name) <= _MAX_PATH_CHARS
    if not is_plain or path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
        raise BundleError(f"{name!r:.200} is no path that a bundle may have")
    if any(len(part.encode()) > _MAX_PART_BYTES for part in path.parts):
        raise BundleError(f"{name!r:.200} has a name in it of more than {_MAX_PART_BYTES} bytes")
