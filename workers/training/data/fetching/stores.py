"""Stores of files by the protocol of their URLs, through fsspec, and the files that are in one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from workers.training.data.fetching.problems import shown
from workers.training.data.problems import DataProblem

# The package of each protocol; without one, it is there. Others of fsspec's can reach more than data (a shell, say).
PACKAGES = {
    "http": "aiohttp",
    "https": "aiohttp",
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "ftp": "",
    "memory": "",
    "zip": "",
    "tar": "",
}
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
WEB = ("http", "https")
TIMEOUT_S = 30.0  # to connect, and between two pieces of an answer
CHANGES = ("ETag", "etag", "Last-Modified", "LastModified", "last_modified", "mtime", "created", "updated", "md5Hash")


class Inside(NamedTuple):
    """A folder or file in an archive: ``path`` (empty: all of it) of ``archive``, a path or URL."""

    protocol: str
    path: str
    archive: str


class Entry(NamedTuple):
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
        raise DataProblem(
            f"task.data.location begins with {protocol}://, which needs a package that this node has not: "
            f"pip install {package}"
        ) from None


def _options(protocol: str) -> dict[str, Any]:
    """Return what keeps a store that does not answer from being waited for."""
    if protocol in WEB:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=TIMEOUT_S)
        # Sizes are those of the files, not of what a server packed for the way.
        return {"client_kwargs": {"timeout": timeout, "trust_env": True}, "headers": {"Accept-Encoding": "identity"}}
    if protocol == "s3":
        return {"config_kwargs": {"connect_timeout": TIMEOUT_S, "read_timeout": TIMEOUT_S}}
    if protocol in ("ftp", "sftp"):
        return {"timeout": TIMEOUT_S}
    return {}


def entries_of(store: Any, protocol: str, location: str, suffixes: Sequence[str]) -> list[Entry]:
    """Return the file that ``location`` names, or those below it, but no hidden ones, in the order of names."""
    if protocol in WEB:
        name = PurePosixPath(unquote(urlsplit(location).path)).name
        if not name or urlsplit(location).path.endswith("/"):
            raise DataProblem(
                f"task.data.location is {shown(location)}: a web server has no folders; name a file of it, "
                "or an archive (.zip, .tar)"
            )
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


def _entry(path: str, name: str, info: dict[str, Any], *, is_named: bool) -> Entry:
    version = next((str(info[key]) for key in CHANGES if info.get(key)), "")
    size = info.get("size")
    return Entry(path, name, None if size is None else int(size), version, is_named)
