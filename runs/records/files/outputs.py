"""The output folders of runs on the server: plain files under one root, and no way out of it."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from runs.records.files.encrypted import PREFIX, context_of, is_encrypted, place_for, plain_name
from runs.records.files.paths import output_folder
from trainyard.at_rest.chunks import decrypted_size, encrypted_pieces
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.contract.answers.runs import File
from trainyard.contract.limits import MAX_PATH

MAX_FILES = 10_000
MAX_PART_BYTES = 200
MAX_FILE_BYTES = 2 * 1024**3
CHUNK_BYTES = 1024 * 1024


class TooLarge(ValueError):
    """The file is larger than the server keeps."""


def listing(run_id: str) -> list[File]:
    """Return path, size and time of each file, by path. The size is that of the content, encrypted or not."""
    root = output_folder(run_id)
    found: list[File] = []
    for folder, names, files in os.walk(root):  # does not follow links
        names.sort()
        for name in sorted({plain_name(name) for name in files if not name.startswith(".partial-")}):
            path = _newest(Path(folder) / name)
            if path is None or path.is_symlink():
                continue
            stat = path.stat()
            size = decrypted_size(stat.st_size) if is_encrypted(path) else stat.st_size
            at = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat().replace("+00:00", "Z")
            shown = path.with_name(name).relative_to(root).as_posix()
            found.append({"path": shown, "size_bytes": size, "modified_at": at})
            if len(found) == MAX_FILES:
                return found
    return found


def find(run_id: str, path: str) -> Path | None:
    """Return where the file lies, which ``is_encrypted`` tells of; None where there is none inside the folder."""
    try:
        return _newest(inside(run_id, path))
    except ValueError:
        return None


def _newest(path: Path) -> Path | None:
    """Return the file of this path. There are two where a crash came between the newer one and the end of the other."""
    found = [one for one in (path, place_for(path, encrypts=True)) if one.is_file()]
    return max(found, key=lambda one: one.stat().st_mtime_ns, default=None)


def store(run_id: str, path: str, read: Callable[[int], bytes], sha256: str, keyring: Keyring = NO_KEYS) -> None:
    """Write what ``read`` gives whole or not at all, encrypted where the keyring encrypts. ``sha256`` is empty where
    nobody said what it should be.

    Raises TooLarge, and ValueError for another content than ``sha256`` says or a path not plainly inside the folder.
    """
    with _place(run_id, path) as target:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
        try:
            parts = _checked(read, sha256)
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(encrypted_pieces(keyring, context_of(run_id), parts) if keyring.encrypts else parts)
            _move(Path(name), target, encrypts=keyring.encrypts)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _checked(read: Callable[[int], bytes], sha256: str) -> Iterator[bytes]:
    digest, size = hashlib.sha256(), 0
    while part := read(CHUNK_BYTES):
        size += len(part)
        if size > MAX_FILE_BYTES:
            raise TooLarge(f"A file has at most {MAX_FILE_BYTES:,} bytes.")
        digest.update(part)
        yield part
    if sha256 and digest.hexdigest() != sha256:
        raise ValueError("the body is not the one that was sealed")


def put(run_id: str, path: str, file: Path, *, encrypts: bool = False) -> None:
    """Move a whole file, which is encrypted or not, to its place.

    Raises ValueError where a folder stands there, or a file on the way.
    """
    with _place(run_id, path) as target:
        _move(file, target, encrypts=encrypts)


@contextmanager
def _place(run_id: str, path: str) -> Iterator[Path]:
    """Give where the file goes, in a folder that is there."""
    target = inside(run_id, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield target
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise ValueError(f"{path!r} is a file and a folder at once") from error


def _move(file: Path, target: Path, *, encrypts: bool) -> None:
    if target.is_dir():
        raise IsADirectoryError(target)
    file.replace(place_for(target, encrypts=encrypts))
    place_for(target, encrypts=not encrypts).unlink(missing_ok=True)


def inside(run_id: str, path: str) -> Path:
    """Return where the path leads. Raises ValueError for one that is not plainly inside the output folder."""
    parts = PurePosixPath(path).parts
    is_plain = parts and not path.startswith("/") and "\0" not in path and len(path) <= MAX_PATH
    if not is_plain or any(
        part in (".", "..") or part.startswith((".partial-", PREFIX)) or len(os.fsencode(part)) > MAX_PART_BYTES
        for part in parts
    ):
        raise ValueError(f"{path[:100]!r} is no path inside the output folder")
    root = output_folder(run_id).resolve()
    target = root.joinpath(*parts).resolve()
    if not target.is_relative_to(root) or target == root:  # a link on the way
        raise ValueError(f"{path[:100]!r} leads out of the output folder")
    return target
