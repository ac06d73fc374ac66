"""A project's bare copies of repositories on the server: one for each URL, with the commits that runs were made of.

Projects share none, so that what one may read, another does not find. They are fetched cut short (one commit without
its history) where the other side can, and never checked out. The least recently used go first.
"""

import fcntl
import hashlib
import ipaddress
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from runs.inputs.repositories.command import CommandLimits, run_git
from runs.inputs.repositories.keys import Passage, key_for, passage
from runs.inputs.repositories.problems import GitFailed, RepositoryProblem, is_not_given, no_revision, problem_of
from runs.models import Project, RunCode
from trainyard.formats.addresses import address_problem
from trainyard.formats.names import without_hidden
from trainyard.spec.values.code import RepositoryAddress, place_of

PORTS = {"https": 443, "http": 80, "ssh": 22}
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-f]{7,63}")
_FORMAT = "%H%x00%s%x00%an%x00%aI"


class Commit(NamedTuple):
    number: str
    branch: str  # empty where a tag or the commit itself was asked for
    subject: str = ""
    author: str = ""
    authored_at: datetime | None = None


class Revision(NamedTuple):
    commit: str
    ref: str  # its whole name on the other side; empty for a commit that was asked for by its number


class Mirror:
    """One repository. Raises RepositoryProblem."""

    def __init__(self, project: Project, url: str) -> None:
        self.url = url
        self._project = project
        self._place = place_of(url)
        self.folder = mirror_folder(project.pk, url)
        self._head = ""

    def commit(self, revision: str) -> Commit:
        """Return the commit that the revision names now, and have all of its files here."""
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked():
            self._prepare()
            is_here = COMMIT.fullmatch(revision) and self._has(revision)  # the project was given this commit before
            found = Revision(revision, "") if is_here else self._fetch(revision)
        evict(keep=self.folder)
        return self._describe(found)

    def _fetch(self, revision: str) -> Revision:
        key = key_for(self._project, self._place)
        with passage(self.url, allowed_address(self.url, self._place), key) as way:
            try:
                found = self._find(revision, way)
                if not self._has(found.commit):
                    self._fetch_commit(found, way)
            except GitFailed as error:
                raise problem_of(error, self.url, self._place, has_key=key is not None) from None
        if not self._has(found.commit):
            raise no_revision(self.url, revision, [])
        return found

    def _find(self, revision: str, way: Passage) -> Revision:
        """Ask the other side what the revision is."""
        names = [revision, f"refs/heads/{revision}", f"refs/tags/{revision}", f"refs/tags/{revision}^{{}}"]
        refs: dict[str, str] = {}
        head = ""
        for line in self._listed(["--symref", "--", self._remote, "HEAD", *names], way):
            what, _, name = line.partition("\t")
            if what.startswith("ref: ") and name == "HEAD":
                head = what.removeprefix("ref: ")
            else:
                refs[name] = what
        if revision == "HEAD" and "HEAD" in refs:
            return Revision(refs["HEAD"], head or "HEAD")
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}", revision):
            if name in refs and name.startswith("refs/"):
                return Revision(refs[name], name.removesuffix("^{}"))
        if COMMIT.fullmatch(revision):
            return Revision(revision, "")
        if _SHORT.fullmatch(revision):
            raise RepositoryProblem("revision", f"{revision} is a part of a commit's number: write all 40 digits of it")
        branches = self._listed(["--heads", "--", self._remote], way)
        raise no_revision(self.url, revision, [line.partition("\trefs/heads/")[2] for line in branches])

    def _listed(self, words: list[str], way: Passage) -> list[str]:
        answer = run_git(["ls-remote", *words], variables=way.variables, settings=way.settings)
        return answer.decode(errors="replace").splitlines()

    def _fetch_commit(self, found: Revision, way: Passage) -> None:
        try:
            self._run_fetch(["--depth=1"], [found.commit], way)
        except GitFailed as error:
            if not is_not_given(error):
                raise
            try:
                self._run_fetch([], [found.ref] if found.ref else ["+refs/heads/*:refs/all/heads/*"], way)
            except GitFailed as again:
                if found.ref or not is_not_given(again):
                    raise
                raise no_revision(self.url, found.commit, []) from None

    def _run_fetch(self, options: list[str], wanted: list[str], way: Passage) -> None:
        words = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", *options]
        run_git(
            [*words, "--", self._remote, *wanted],
            repository=self.folder,
            variables=way.variables,
            settings={**way.settings, "fetch.unpackLimit": "1", "transfer.unpackLimit": "1"},
            limits=CommandLimits(folder=self.folder, num_bytes=settings.GIT_LIMIT_BYTES),
        )

    @property
    def _remote(self) -> str:
        return self._place.path if self._place.scheme == "file" else self.url

    def _describe(self, found: Revision) -> Commit:
        branch = found.ref.removeprefix("refs/heads/") if found.ref.startswith("refs/heads/") else ""
        words = ["log", "-1", "--no-show-signature", f"--format={_FORMAT}", found.commit]
        try:
            text = run_git(words, repository=self.folder)
        except GitFailed:
            why = f"{found.commit} is no commit: name a branch, a tag or a commit"
            raise RepositoryProblem("revision", why) from None
        number, subject, author, at = text.decode(errors="replace").strip("\n").split("\0")
        clean = without_hidden(subject)[:300], without_hidden(author)[:200]
        return Commit(number, branch, *clean, datetime.fromisoformat(at) if at else None)

    def _has(self, commit: str) -> bool:
        try:
            run_git(["cat-file", "-e", f"{commit}^{{commit}}"], repository=self.folder)
        except GitFailed:
            return False
        return True

    def _prepare(self) -> None:
        if not (self.folder / "HEAD").exists():
            run_git(["init", "--quiet", "--bare", "--template=", "--", str(self.folder)])
        os.utime(self.folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the mirror for one fetch at a time; the lock outlives the folder, which may be evicted."""
        with self.folder.with_suffix(".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def mirrors_root() -> Path:
    return Path(settings.HOME) / "repositories"


def mirror_folder(project_id: str, url: str) -> Path:
    return mirrors_root() / project_id / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.git"


def evict(keep: Path) -> None:
    """Delete the least recently used copies until the others fit into GIT_CACHE_BYTES."""
    if not settings.GIT_CACHE_BYTES:
        return
    found = [(one.stat().st_mtime, one) for one in mirrors_root().glob("*/*.git") if one.is_dir()]
    sizes = {one: sum(path.lstat().st_size for path in one.rglob("*") if path.is_file()) for _, one in found}
    total = sum(sizes.values())
    for _, one in sorted(found):
        if total <= settings.GIT_CACHE_BYTES:
            return
        if one != keep and _remove(one):
            total -= sizes[one]


def _remove(folder: Path) -> bool:
    """Delete a copy unless somebody fetches into it."""
    with folder.with_suffix(".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True


# Addresses from which the server may fetch code: none of its own network but those that the settings name.


def allowed_address(url: str, place: RepositoryAddress) -> str:
    """Return the address to connect to, which was looked at: a name may lead elsewhere the next time. Empty for a
    path of the server. Raises RepositoryProblem."""
    if place.scheme == "file":
        _refuse_path(url, place.path)
        return ""
    try:
        found = socket.getaddrinfo(place.host, place.port or PORTS[place.scheme], type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        words = f"as seen from the server ({getattr(error, 'strerror', None) or 'it is no name'})"
        why = f"there is no host {place.host} {words}: correct the URL, or try again"
        raise RepositoryProblem("git", why) from None
    addresses = list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))
    for address in addresses:
        if problem := address_problem(ipaddress.ip_address(address), "code is fetched from", "the server"):
            raise RepositoryProblem("git", f"{url} {problem}")
    if place.scheme == "http" and any(ipaddress.ip_address(address).is_global for address in addresses):
        raise RepositoryProblem("git", f"{url} would be fetched without encryption over the internet: write https://")
    return addresses[0]


def _refuse_path(url: str, path: str) -> None:
    roots = [Path(root).resolve() for root in settings.GIT_FILE_ROOTS]
    if not roots:
        why = "is a folder of the server, which fetches from there only where its GIT_FILE_ROOTS names it"
        raise RepositoryProblem("git", f"{url} {why}")
    if not any(Path(path).resolve().is_relative_to(root) for root in roots):
        why = f"is outside of the folders that GIT_FILE_ROOTS of the server names ({', '.join(map(str, roots))})"
        raise RepositoryProblem("git", f"{url} {why}")


MAX_CHARACTERS = 300_000
LIMITS = CommandLimits(time_s=10.0)


class Difference(NamedTuple):
    patch: str
    is_cut: bool


def difference(project: Project, code: RunCode) -> Difference | None:
    """Return what the commit of the run changes in that of the run before; None where there was none, or where the copy
    of the repository has gone since."""
    folder = mirror_folder(project.pk, code.url)
    if not code.previous or not folder.is_dir():
        return None
    words = ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", code.previous, code.commit, "--"]
    try:
        text = run_git([*words, code.path or "."], repository=folder, limits=LIMITS).decode(errors="replace")
    except (GitFailed, RepositoryProblem):
        return None
    return Difference(text[:MAX_CHARACTERS], len(text) > MAX_CHARACTERS)
