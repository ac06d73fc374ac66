"""Code bundles: a folder as a gzipped tar, the same bytes for the same files, and unpacked without trust.

A bundle holds regular files, and links to folders that it has. Whoever unpacks one gets no other link, no device, no
path that leads out of the folder, and no more than MAX_BYTES, whatever the archive says.
"""

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from trainyard.code_folder import BundleError as BundleError
from trainyard.code_folder import CodeFolder, largest, read
from trainyard.formats.figures import size
from trainyard.formats.words import listed

MAX_BYTES = 50 * 1024 * 1024
MAX_FILES = 10_000
LEAVE_BEHIND = "name what is to stay behind in a .trainyardignore, or point code at a smaller folder"
_MAX_PATH_CHARS = 500
_MAX_PART_BYTES = 255  # what file systems take as one name
_HEADER_BYTES = 2048  # of a file in a tar, with its padding and, for a long name, the extra header


class BundleFile(NamedTuple):
    """One file of a bundle, or a link to a folder, which ``link`` is then as it is written."""

    name: str
    is_executable: bool
    data: bytes
    link: str = ""


def pack(folder: Path) -> tuple[bytes, str, list[str]]:
    """Return ``folder``, or a file alone, as bundle, its SHA-256 and the paths inside. Raises BundleError, naming what
    is in the way. What stays out: see ``find_code``."""
    return pack_code(find_code(folder), str(folder.resolve()))


def find_code(folder: Path) -> CodeFolder:
    """Return what of the folder is code: not what ignore files name, nor names of ``code_folder.LEFT_OUT``, nor links
    that lead to nothing of it. A link to a file inside becomes that file. Raises BundleError."""
    folder = folder.resolve()
    if folder.is_file():
        return CodeFolder({folder.name: folder}, {}, [], [])
    if not folder.is_dir():
        raise BundleError(f"{folder} is no folder and no file")
    return read(folder)


def pack_code(code: CodeFolder, source: str) -> tuple[bytes, str, list[str]]:
    """Return what ``pack`` does. ``source`` is what the folder is called. Raises BundleError."""
    check_size({name: path.stat().st_size for name, path in code.files.items()}, source)
    return pack_contents((_content(name, code) for name in sorted([*code.files, *code.links])), source)


def _content(name: str, code: CodeFolder) -> BundleFile:
    if name in code.links:
        return BundleFile(name, False, b"", code.links[name])
    path = code.files[name]
    return BundleFile(name, os.access(path, os.X_OK), path.read_bytes())


def pack_contents(contents: Iterable[BundleFile], source: str = "the code") -> tuple[bytes, str, list[str]]:
    """Return files as bundle, its SHA-256 and their paths. Raises BundleError. ``source`` is what they are called."""
    sizes: dict[str, int] = {}
    total = 0
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, is_executable, content, link in contents:
            check_name(name)
            sizes[name] = len(content)
            total += len(content)
            if total > MAX_BYTES or len(sizes) > MAX_FILES:
                check_size(sizes, source)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if is_executable else 0o644
            if link:
                entry.type, entry.linkname = tarfile.SYMTYPE, link
            archive.addfile(entry, io.BytesIO(content))
    data = gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)
    return data, hashlib.sha256(data).hexdigest(), list(sizes)


def check_size(sizes: Mapping[str, int], source: str, remedy: str = LEAVE_BEHIND) -> None:
    """Raise BundleError for files, by name, that are too large together or too many, with the largest of them."""
    if sum(sizes.values()) > MAX_BYTES:
        found = f"{source} has {size(sum(sizes.values()))}, more than {MAX_BYTES // 2**20} MB"
        most = listed([f"{name} ({size(number)})" for name, number in largest(sizes)])
    elif len(sizes) > MAX_FILES:
        found = f"{source} has {len(sizes):,} files, more than {MAX_FILES:,}"
        most = listed([f"{name} ({number:,} files)" for name, number in largest(dict.fromkeys(sizes, 1))])
    else:
        return
    raise BundleError(f"{found} (the largest: {most}); {remedy}")


def contents_of(data: bytes) -> list[BundleFile]:
    """Return what is in the bundle. Raises BundleError."""
    try:
        with tarfile.open(fileobj=io.BytesIO(_decompress(data)), mode="r:") as archive:
            return list(_read(archive))
    except (tarfile.TarError, UnicodeError, ValueError, OverflowError) as error:
        raise error if isinstance(error, BundleError) else BundleError(f"no code bundle: {error}") from None


def unpack(data: bytes, folder: Path) -> list[str]:
    """Write the bundle's files below ``folder`` and return their paths. Raises BundleError before it writes any."""
    contents = contents_of(data)
    for name, is_executable, content, link in sorted(contents, key=lambda one: bool(one.link)):  # links come last
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if link:
            path.symlink_to(link)
        else:
            path.write_bytes(content)
            path.chmod(0o755 if is_executable else 0o644)
    return [one.name for one in contents]


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


def _read(archive: tarfile.TarFile) -> Iterator[BundleFile]:
    seen: set[str] = set()
    folders: set[str] = {"."}
    links: dict[str, str] = {}
    total = 0
    for entry in archive:
        if entry.isdir():
            continue
        check_name(entry.name)
        if entry.issym():
            links[entry.name] = entry.linkname
        elif not entry.isreg() or entry.issparse():
            raise BundleError(f"{entry.name!r} is a link or a device; a bundle has files and links to folders only")
        if entry.name in seen or len(seen) >= MAX_FILES:
            raise BundleError(f"{entry.name!r} is there twice, or there are more than {MAX_FILES:,} files")
        folders.update(str(path) for path in PurePosixPath(entry.name).parents)
        seen.add(entry.name)
        if folders & seen:
            raise BundleError(f"{entry.name!r} and another entry are a file and a folder of one name")
        file = archive.extractfile(entry) if entry.isreg() else None
        content = file.read() if file else b""
        total += len(content)
        if len(content) != entry.size or total > MAX_BYTES:
            raise BundleError(f"{entry.name!r} is cut off, or there are more than {MAX_BYTES // 2**20} MB")
        yield BundleFile(entry.name, bool(entry.mode & 0o100), content, links.get(entry.name, ""))
    for name, target in links.items():
        if not _leads_inside(name, target, folders - set(links)):
            raise BundleError(f"{name!r} is a link that leads to no folder of the bundle")


def _leads_inside(name: str, target: str, folders: set[str]) -> bool:
    """Return whether the link leads to one of the folders by steps up and then down: so no other link is on its way."""
    parts = PurePosixPath(target).parts
    up = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    above = PurePosixPath(name).parent.parts
    if not target or PurePosixPath(target).is_absolute() or ".." in parts[up:] or up > len(above):
        return False
    return str(PurePosixPath(*above[: len(above) - up], *parts[up:])) in folders


def check_name(name: str) -> None:
    """Raise BundleError unless this is a plain path inside the folder that every file system takes."""
    path = PurePosixPath(name)
    is_plain = name.isprintable() and "\\" not in name and len(name) <= _MAX_PATH_CHARS
    if not is_plain or path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
        raise BundleError(f"{name!r:.200} is no path that a bundle may have")
    if any(len(part.encode()) > _MAX_PART_BYTES for part in path.parts):
        raise BundleError(f"{name!r:.200} has a name in it of more than {_MAX_PART_BYTES} bytes")
