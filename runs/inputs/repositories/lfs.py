"""Files of Git LFS, by its HTTP interface or from a folder of this machine.

Git's own program for LFS is not used: it goes where a repository's ``.lfsconfig`` and its server send it. Here every
address is looked at before it is connected to, as that of the repository is, and no redirect is followed.
"""

import hashlib
import ipaddress
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from runs.inputs.repositories.keys import authorization, key_for
from runs.inputs.repositories.mirrors import allowed_address
from runs.inputs.repositories.problems import RepositoryProblem
from runs.models import Project
from trainyard.contract.base import BadDocument, WireStruct, decode
from trainyard.formats.names import visible
from trainyard.rest.http_clients import direct_client
from trainyard.spec.values.code import RepositoryAddress, place_of

POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-\d-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n?"
)
KIND = "application/vnd.git-lfs+json"
AT_ONCE = 100  # objects of one question
TIME_LIMIT_S = 90.0
CONNECT_S, ANSWER_S = 10.0, 20.0
MAX_ANSWER_BYTES = 4 * 2**20


class Pointer(NamedTuple):
    """Pointer to a large file, which Git has in its place."""

    digest: str  # SHA-256
    size: int


class Download(WireStruct):
    href: str
    header: dict[str, str] | None = None


class Actions(WireStruct):
    download: Download | None = None


class ObjectError(WireStruct):
    message: str = ""


class Object(WireStruct):
    oid: str
    actions: Actions | None = None
    error: ObjectError | None = None


class Batch(WireStruct):
    objects: list[Object]


def read_pointer(content: bytes) -> Pointer | None:
    found = POINTER.fullmatch(content)
    return None if found is None else Pointer(found[1].decode(), int(found[2]))


def fetch(project: Project, url: str, pointers: Sequence[Pointer]) -> dict[str, bytes]:
    """Return the files by digest. Raises RepositoryProblem."""
    wanted = list(dict.fromkeys(pointers))
    place = place_of(url)
    if place.scheme == "file":
        allowed_address(url, place)
        return {one.digest: _checked(_from_folder(url, Path(place.path), one), one, url) for one in wanted}
    if place.scheme == "ssh":
        raise RepositoryProblem("lfs", f"{url} gives files of Git LFS by https alone: write its https:// address")
    fetching = _Fetching(project, url, place)
    found: dict[str, bytes] = {}
    for first in range(0, len(wanted), AT_ONCE):
        found |= fetching.fetch(wanted[first : first + AT_ONCE])
    return found


def _from_folder(url: str, repository: Path, pointer: Pointer) -> bytes:
    name = Path("lfs", "objects", pointer.digest[:2], pointer.digest[2:4], pointer.digest)
    for folder in (repository / ".git", repository):
        path = folder / name
        if path.is_file() and path.resolve().is_relative_to(repository.resolve()):
            return path.read_bytes() if path.stat().st_size == pointer.size else b""
    words = f"{url} does not hold the file of Git LFS {pointer.digest[:12]}: run git lfs fetch there"
    raise RepositoryProblem("lfs", words)


def _checked(content: bytes, pointer: Pointer, url: str) -> bytes:
    if len(content) != pointer.size or hashlib.sha256(content).hexdigest() != pointer.digest:
        words = f"{url} gave other bytes for the file of Git LFS {pointer.digest[:12]}: push it anew"
        raise RepositoryProblem("lfs", words)
    return content


class _Fetching:
    """One repository behind HTTP, and a limit of time for all of its files."""

    def __init__(self, project: Project, url: str, place: RepositoryAddress) -> None:
        self._url = url
        self._place = place
        self._key = key_for(project, place)
        self._until = time.monotonic() + TIME_LIMIT_S

    def fetch(self, pointers: Sequence[Pointer]) -> dict[str, bytes]:
        by_digest = {one.oid: one for one in self._batch(pointers).objects}
        return {one.digest: self._download(one, by_digest.get(one.digest)) for one in pointers}

    def _batch(self, pointers: Sequence[Pointer]) -> Batch:
        base = self._url.rstrip("/")
        address = f"{base if base.endswith('.git') else f'{base}.git'}/info/lfs/objects/batch"
        objects = [{"oid": one.digest, "size": one.size} for one in pointers]
        body = {"operation": "download", "transfers": ["basic"], "objects": objects}
        headers = {"Accept": KIND, "Content-Type": KIND, **self._own_headers()}
        text = self._request("POST", address, headers, MAX_ANSWER_BYTES, body)
        try:
            return decode(text, Batch)
        except BadDocument as error:
            raise RepositoryProblem("lfs", f"{self._place.host} answers something else than Git LFS: {error}") from None

    def _download(self, pointer: Pointer, found: Object | None) -> bytes:
        if found is None or found.actions is None or found.actions.download is None:
            error = found.error if found is not None else None
            why = visible(error.message)[:200] if error is not None else "it is not there"
            words = f"{self._url} does not give the file of Git LFS {pointer.digest[:12]}: {why}"
            raise RepositoryProblem("lfs", words)
        download = found.actions.download
        headers = download.header or (self._own_headers() if self._is_own(download.href) else {})
        return _checked(self._request("GET", download.href, headers, pointer.size), pointer, self._url)

    def _own_headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": authorization(self._key)}

    def _is_own(self, address: str) -> bool:
        """Return whether the address is of the repository's own server, for which its key is."""
        mine = urlsplit(self._url)
        return address.startswith(f"{mine.scheme}://{mine.netloc}/")

    def _request(self, method: str, address: str, headers: Mapping[str, str], most: int, body: object = None) -> bytes:
        """Return the answer. It is connected to the address that was looked at, whatever the name means by then."""
        place = self._allowed(address)
        host = urlsplit(address).netloc.rpartition("@")[2]
        number = allowed_address(address, place)
        shown = f"[{number}]" if ipaddress.ip_address(number).version == 6 else number
        to = httpx.URL(address).copy_with(host=shown.strip("[]"))
        given, extensions = {**headers, "Host": host}, {"sni_hostname": place.host}
        timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
        try:
            with (
                direct_client(timeout=timeout) as client,
                client.stream(method, to, headers=given, json=body, extensions=extensions) as response,
            ):
                if response.status_code in (401, 403, 404) and method == "POST":
                    what = "does not give files of Git LFS to us: add a Git key with the right to read"
                    raise RepositoryProblem("lfs", f"{place.host} {what} {self._url} to the project")
                if response.status_code != 200:
                    raise RepositoryProblem("lfs", f"{place.host} answers {response.status_code} for a file of Git LFS")
                return self._read(response, most, place.host)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why = f"does not give a file of Git LFS ({str(error) or type(error).__name__})"
            raise RepositoryProblem("lfs", f"{place.host} {why}: try again") from None

    def _read(self, response: httpx.Response, most: int, host: str) -> bytes:
        content = bytearray()
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > most:
                raise RepositoryProblem("lfs", f"{host} sends more than the {most} bytes that were announced")
            if time.monotonic() > self._until:
                words = f"files of Git LFS took more than {TIME_LIMIT_S:.0f} s"
                raise RepositoryProblem("lfs", f"{words}: try again, or upload the code as a folder")
        return bytes(content)

    def _allowed(self, address: str) -> RepositoryAddress:
        try:
            parts = urlsplit(address)
            place = RepositoryAddress(parts.scheme, parts.hostname or "", parts.port, "", parts.path)
        except ValueError:
            place = RepositoryAddress("", "", None, "", "")
        if place.scheme not in ("https", "http") or not place.host:
            words = f"{self._place.host} sends to {visible(address)[:200]} for a file of Git LFS"
            raise RepositoryProblem("lfs", words)
        return place
