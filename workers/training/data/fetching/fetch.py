"""Data behind a URL, fetched once into the node's cache: files of a web server, an object store or an archive."""

import hashlib
import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from trainyard.spec.needs import key_of
from workers.training.data.fetching.problems import explained, is_passing, only_allowed_hosts, shown
from workers.training.data.problems import DataProblem
from workers.training.data.progress import DataProgress
from workers.training.data.storage.cache import cached

# The package of each protocol; without one, it is there. Others of fsspec's can reach more than data (a shell, say).
PACKAGES = {
    "http": "aiohttp", "https": "aiohttp", "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs",
    "hf": "huggingface_hub", "sftp": "paramiko", "ftp": "", "memory": "", "zip": "", "tar": "",
}  # fmt: skip
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
WEB = ("http", "https")
TIMEOUT_S = 30.0  # to connect, and between two pieces of an answer
CHANGES = ("ETag", "etag", "Last-Modified", "LastModified", "last_modified", "mtime", "created", "updated", "md5Hash")
__all__ = ["fetched", "fetched_file", "is_local", "is_url", "shown", "without_file_scheme"]

NUM_FETCHING_THREADS = 8
NUM_TRIES = 3
PAUSE_S = 1.0  # before the second try; twice that before the third


def is_url(location: str) -> bool:
    """Say whether ``location`` has to be fetched: a URL of another machine, or an archive, also one of this machine."""
    return not is_local(location) or location.lower().endswith(ARCHIVES)


def is_local(location: str) -> bool:
    """Say whether ``location`` is a path of this machine, if need be one of an archive."""
    return "://" not in location or location.startswith("file://")


def without_file_scheme(location: str) -> str:
    """Return the path of a local location, which may be written as file:///path."""
    return unquote(location.removeprefix("file://")) if location.startswith("file://") else location


def fetched(location: str, suffixes: Sequence[str], *, local: Callable[[str], Path]) -> Path:
    """Return the folder or file in the cache that holds what ``location`` names; of a folder, the files whose names end
    in one of ``suffixes`` (none: all). ``local`` gives this machine's file for an archive, which may itself be a URL.

    Raises DataProblem, in one sentence, for whatever keeps them from being fetched.
    """
    if inner := archive_of(location):
        return _fetched(location, inner.path, suffixes, inner.protocol, str(local(inner.archive)))
    return _fetched(location, location, suffixes, location.partition("://")[0].lower())


def fetched_file(location: str) -> Path:
    """Return the one file in the cache that a URL names, also where it is an archive."""
    path = _fetched(location, location, (), location.partition("://")[0].lower())
    if path.is_dir():
        raise DataProblem(f"task.data.location names {shown(location)}, which is a folder and no archive")
    return path


def _fetched(location: str, path: str, suffixes: Sequence[str], protocol: str, archive: str = "") -> Path:
    """``archive`` is the file of this machine that ``path`` lies in; empty where it is in none."""
    with _in_words(location):
        store = open_store(protocol, path, archive)
        entries = entries_of(store, protocol, path, suffixes)
    if not entries:
        ends = f" that ends in {' or '.join(suffixes)}" if suffixes else ""
        raise DataProblem(f"task.data.location is {shown(location)}, where there is no file{ends}")
    state = "\n".join(f"{entry.name}\0{entry.size}\0{entry.version}" for entry in entries)
    source = location
    if archive:  # the state of its own file
        found = Path(archive).stat()
        source += f"\0{archive}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}"
    elif not all(entry.version for entry in entries):  # such a store is asked anew by each attempt
        source += os.environ.get("TRAINYARD_ATTEMPT", "")

    def build(folder: Path) -> None:
        with _in_words(location):
            _download(store, entries, folder / "files", location, num_threads=1 if archive else NUM_FETCHING_THREADS)

    size = sum(entry.size or 0 for entry in entries)
    what = hashlib.sha256(f"{source} {state}".encode(errors="surrogateescape")).hexdigest()  # a key is shown
    key = f"fetched {key_of(location)} {PurePosixPath(urlsplit(location).path).name} {what}"
    folder = cached(key, build, needed_bytes=size) / "files"
    return folder / entries[0].name if len(entries) == 1 and entries[0].is_named else folder


def _download(store: Any, entries: "Sequence[StoreFile]", folder: Path, location: str, *, num_threads: int) -> None:
    """Fetch the entries into ``folder``. Their time of change is 0 there: the cache's name says what they are."""
    folder.mkdir()
    for parent in sorted({(folder / entry.name).parent for entry in entries}):
        parent.mkdir(parents=True, exist_ok=True)
    sizes = [entry.size for entry in entries]
    total = sum(size for size in sizes if size is not None) if None not in sizes else None
    progress = DataProgress(f"fetching {shown(location)}", total)

    def one(entry: StoreFile) -> None:
        target = folder / entry.name
        _get(store, entry, target, progress)
        if entry.size is not None and target.stat().st_size < entry.size:
            raise DataProblem(f"{shown(entry.path)} ended before its {entry.size} bytes: try again")
        os.utime(target, (0, 0))

    with ThreadPoolExecutor(num_threads) as threads:
        try:
            for _ in threads.map(one, entries):
                pass
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _get(store: Any, entry: "StoreFile", target: Path, progress: DataProgress) -> None:
    """Fetch one file, and try again where the connection was lost on the way."""
    for number in range(NUM_TRIES):
        try:
            store.get_file(entry.path, str(target), callback=progress.callback())
            return
        except Exception as error:  # each store has its own errors, recognised by their texts
            if number + 1 == NUM_TRIES or not is_passing(error):
                raise
            time.sleep(PAUSE_S * 2**number)


@contextmanager
def _in_words(location: str) -> Iterator[None]:
    """Turn what a store raises into a sentence; a full disk is handled by the cache."""
    try:
        with only_allowed_hosts():
            yield
    except DataProblem:
        raise
    except Exception as error:  # as above
        raise explained(error, location) from None


# Stores of files by the protocol of their URLs, through fsspec, and the files that are in one.


class Inside(NamedTuple):
    """A folder or file in an archive: ``path`` (empty: all of it) of ``archive``, a path or URL."""

    protocol: str
    path: str
    archive: str


class StoreFile(NamedTuple):
    """A file of a store: where it is, its name below what was asked for, and its version."""

    path: str
    name: str
    size: int | None
    version: str
    is_named: bool  # the location names this very file


def archive_of(location: str) -> Inside | None:
    """Return what a location such as ``zip://train::https://host/a.zip`` or ``/data/a.zip`` names of an archive."""
    head, found, archive = location.partition("::")
    protocol, _, path = head.partition("://")
    if found and protocol in ("zip", "tar"):
        return Inside(protocol, path.strip("/"), archive)
    if found or protocol in ("zip", "tar"):
        raise DataProblem(
            f"task.data.location is {shown(location)}: only archives are written with ::, such as zip://folder::/data/all.zip"
        )
    name = location.partition("?")[0].lower() if "://" in location else location.lower()
    if not name.endswith(ARCHIVES):
        return None
    return Inside("zip" if name.endswith(".zip") else "tar", "", location)


def open_store(protocol: str, location: str, archive: str = "") -> Any:
    """Return fsspec's file system of ``protocol``, with what ``location`` says of it, such as a host; for an archive,
    the one in that file.

    Raises DataProblem for one that we do not know or have not.
    """
    if protocol not in PACKAGES:
        raise DataProblem(f"task.data.location begins with {protocol}://; accepted are {', '.join(PACKAGES)}, file")
    package = PACKAGES[protocol]
    import fsspec

    try:
        if protocol == "hf":
            os.environ["HF_HUB_DISABLE_XET"] = "1"  # it connects past Python, where no address is checked
        if package:
            importlib.import_module(package)
        given = fsspec.get_filesystem_class(protocol)._get_kwargs_from_urls(location) | _options(protocol)
        if archive:
            given["fo"] = archive
        return fsspec.filesystem(protocol, skip_instance_cache=protocol != "memory", **given)
    except ImportError:
        words = f"which needs a package that this node has not: pip install {package}"
        raise DataProblem(f"task.data.location begins with {protocol}://, {words}") from None


def _options(protocol: str) -> dict[str, Any]:
    """Return what keeps a store that does not answer from being waited for."""
    if protocol in WEB:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=TIMEOUT_S)
        # Sizes are those of the files, not of what a server packed for the way.
        return {"client_kwargs": {"timeout": timeout, "trust_env": True}, "headers": {"Accept-Encoding": "identity"}}
    if protocol == "s3":
        return {"config_kwargs": {"connect_timeout": TIMEOUT_S, "read_timeout": TIMEOUT_S}}
    return {"timeout": TIMEOUT_S} if protocol in ("ftp", "sftp") else {}


def entries_of(store: Any, protocol: str, location: str, suffixes: Sequence[str]) -> list[StoreFile]:
    """Return the file that ``location`` names, or those below it, but no hidden ones, in the order of names."""
    if protocol in WEB:
        name = PurePosixPath(unquote(urlsplit(location).path)).name
        if not name or urlsplit(location).path.endswith("/"):
            words = "a web server has no folders; name a file of it, or an archive (.zip, .tar)"
            raise DataProblem(f"task.data.location is {shown(location)}: {words}")
        return [_entry(location, name if _is_plain(name) else "file", store.info(location), is_named=True)]
    root = str(store._strip_protocol(location)).rstrip("/")
    if root and store.isfile(root):
        return [_entry(root, PurePosixPath(root).name, store.info(root), is_named=True)]
    ends, found = tuple(suffixes), store.find(root, detail=True)
    below = [(path, str(path)[len(root) :].strip("/"), info) for path, info in found.items()]
    if not below and root and not store.exists(root):
        raise FileNotFoundError(location)
    return sorted(
        _entry(path, name, info, is_named=False)
        for path, name, info in below
        if name and not path.endswith("/") and (not ends or name.lower().endswith(ends)) and _is_plain(name)
    )


def _is_plain(name: str) -> bool:
    """Say whether a name stays where it is put, and is none of the files that systems leave behind."""
    parts = PurePosixPath(name).parts
    return "\\" not in name and not any(part.startswith((".", "/")) or part == "__MACOSX" for part in parts)


def _entry(path: str, name: str, info: dict[str, Any], *, is_named: bool) -> StoreFile:
    version = next((str(info[key]) for key in CHANGES if info.get(key)), "")
    size = info.get("size")
    return StoreFile(path, name, None if size is None else int(size), version, is_named)
