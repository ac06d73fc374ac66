"""Pinning of a repository that a spec names: to one commit, and the bundle of its files."""

import posixpath
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urljoin

from pydantic import ValidationError

from runs.inputs.repositories.command import run_git
from runs.inputs.repositories.lfs import fetch, read_pointer
from runs.inputs.repositories.mirrors import Commit, Mirror
from runs.inputs.repositories.problems import GitFailed, RepositoryProblem
from runs.models import CodeBundle, Project, Run, RunCode
from trainyard.bundle import BundleError, BundleFile, check_name, check_size, pack_contents
from trainyard.formats.names import visible
from trainyard.formats.words import listed
from trainyard.spec.values.code import GitCode

MAX_SUBMODULES, MAX_DEPTH = 50, 5
LINK, SUBMODULE, EXECUTABLE = "120000", "160000", "100755"


class PinnedCode(NamedTuple):
    """Code of every attempt of a run, whatever its branch does."""

    code: GitCode
    commit: Commit
    bundle: CodeBundle
    remarks: list[str]
    fetch_s: float

    def keep(self, run: Run) -> RunCode:
        before = RunCode.objects.filter(run__project=run.project_id, url=self.code.git, path=self.code.path)
        return RunCode.objects.create(
            run=run,
            sha256=self.bundle.sha256,
            url=self.code.git,
            commit=self.commit.number,
            branch=self.commit.branch,
            path=self.code.path,
            subject=self.commit.subject,
            author=self.commit.author,
            authored_at=self.commit.authored_at,
            previous=before.order_by("-run__created_at").values_list("commit", flat=True).first() or "",
            remarks=self.remarks,
            fetch_s=self.fetch_s,
        )


def pin(project: Project, code: GitCode, store: Callable[[bytes], CodeBundle]) -> PinnedCode:
    """Fetch the commit that the revision names now, and have its files kept by ``store``, once for each commit. Raises
    RepositoryProblem."""
    started = time.monotonic()
    mirror = Mirror(project, code.git)
    try:
        commit = mirror.commit(code.revision)
        bundle, remarks = _packed_before(project, code, commit) or (None, [])
        if bundle is None:
            packed = TreeReader(project, code).pack(mirror, commit.number)
            bundle, remarks = store(packed.data), packed.remarks
    except GitFailed as error:
        words = (error.stderr.strip().splitlines() or ["no reason"])[-1][:300]
        raise RepositoryProblem("git", f"{code.git} cannot be read: {words}") from None
    return PinnedCode(code, commit, bundle, remarks, time.monotonic() - started)


def _packed_before(project: Project, code: GitCode, commit: Commit) -> tuple[CodeBundle, list[str]] | None:
    """Return the bundle of a run of the same commit and the same choices."""
    asked = {"git": code.git, "path": code.path, "submodules": code.submodules, "lfs": code.lfs, "patch": code.patch}
    same = RunCode.objects.filter(run__project=project, url=code.git, commit=commit.number, path=code.path)
    for one in same.select_related("run").order_by("-run__created_at")[:5]:
        before = one.run.spec.get("task", {}).get("code", {})
        if {name: {"lfs": False, **before}.get(name) for name in asked} == asked:
            found = CodeBundle.objects.filter(project=project, sha256=one.sha256).first()
            if found is not None:
                return found, list(one.remarks)
    return None


# The files of a commit as a bundle: read from Git's objects, without a working tree, a filter or a hook.


class TreeEntry(NamedTuple):
    mode: str
    number: str  # of the object
    size: int
    path: str


class Packed(NamedTuple):
    data: bytes
    remarks: list[str]  # what is not as it would be in a checkout


class TreeReader:
    """Collects the files of a commit and of its submodules. Raises RepositoryProblem."""

    def __init__(self, project: Project, code: GitCode) -> None:
        self._project = project
        self._code = code
        self._num_submodules = 0
        self._left_out: list[str] = []
        self._empty: list[str] = []
        self._pointers: list[str] = []
        self._sizes: dict[str, int] = {}
        self.contents: list[BundleFile] = []

    def pack(self, mirror: Mirror, commit: str) -> Packed:
        tree = _patched(mirror.folder, commit, self._code.patch) if self._code.patch else f"{commit}^{{tree}}"
        self._read(mirror, commit, _folder_of(mirror, tree, commit, self._code), self._code.path, "", 0)
        if self._pointers:
            raise RepositoryProblem("path", _lfs_words(self._pointers, mirror.url))
        if not self.contents:
            raise RepositoryProblem("path", f"{mirror.url} has no file at this commit that could be code")
        try:
            data, _, _ = pack_contents(sorted(self.contents))
        except BundleError as error:
            raise RepositoryProblem("path", str(error)) from None
        return Packed(data, self._remarks())

    def _remarks(self) -> list[str]:
        found = []
        if self._left_out:
            found.append(f"Left out: links that lead to no file of the code ({_some(self._left_out)}).")
        if self._empty:
            found.append(f"Left out: submodules ({_some(self._empty)}); submodules: true fetches them.")
        return found

    def _read(self, mirror: Mirror, commit: str, tree: str, above: str, prefix: str, depth: int) -> None:
        entries = _entries(mirror.folder, tree)
        by_path = {one.path: one for one in entries}
        files = [one for one in entries if one.mode not in (LINK, SUBMODULE)]
        self._sizes |= {f"{prefix}{one.path}": one.size for one in files}
        self._refuse_too_much(mirror.url)
        folders = {str(above) for one in files for above in PurePosixPath(one.path).parents}
        first = len(self.contents)
        links = [one for one in entries if one.mode == LINK]
        for link, target in zip(links, _blobs(mirror.folder, [one.number for one in links]), strict=True):
            place = posixpath.normpath(posixpath.join(posixpath.dirname(link.path), target.decode(errors="replace")))
            if (found := by_path.get(place)) is not None and found.mode not in (LINK, SUBMODULE):
                files.append(found._replace(path=link.path))
            elif place in folders:
                to = posixpath.relpath(place, posixpath.dirname(link.path) or ".")
                self.contents.append(BundleFile(f"{prefix}{link.path}", False, b"", to))
            else:
                self._left_out.append(f"{prefix}{link.path}")
        for one, content in zip(files, _blobs(mirror.folder, [one.number for one in files]), strict=True):
            self._keep(f"{prefix}{one.path}", one.mode == EXECUTABLE, content)
        if self._code.lfs:
            self._fill_pointers(mirror.url, first)
        submodules = [one for one in entries if one.mode == SUBMODULE]
        if submodules and self._code.submodules:
            self._read_submodules(mirror, commit, above, prefix, submodules, depth)
        else:
            self._empty += [f"{prefix}{one.path}" for one in submodules]

    def _keep(self, name: str, is_executable: bool, content: bytes) -> None:
        try:
            check_name(name)
        except BundleError as error:
            raise RepositoryProblem("path", str(error)) from None
        if not self._code.lfs and read_pointer(content) is not None:
            self._pointers.append(name)
        self.contents.append(BundleFile(name, is_executable, content))

    def _fill_pointers(self, url: str, first: int) -> None:
        """Put files of Git LFS in the place of their pointers, among the contents of one repository, from ``first``."""
        found = {place: read_pointer(self.contents[place].data) for place in range(first, len(self.contents))}
        pointers = {place: pointer for place, pointer in found.items() if pointer is not None}
        self._sizes |= {self.contents[place].name: pointer.size for place, pointer in pointers.items()}
        self._refuse_too_much(url)
        files = fetch(self._project, url, list(pointers.values())) if pointers else {}
        for place, pointer in pointers.items():
            self.contents[place] = self.contents[place]._replace(data=files[pointer.digest])

    def _refuse_too_much(self, url: str) -> None:
        try:
            check_size(self._sizes, f"the code at {url}", "name the folder in it that is needed with path")
        except BundleError as error:
            raise RepositoryProblem("path", str(error)) from None

    def _read_submodules(
        self, mirror: Mirror, commit: str, above: str, prefix: str, entries: list[TreeEntry], depth: int
    ) -> None:
        urls = _submodule_urls(mirror, commit)
        for one in entries:
            place = posixpath.join(above, one.path)
            self._num_submodules += 1
            if depth >= MAX_DEPTH or self._num_submodules > MAX_SUBMODULES:
                words = f"there are more than {MAX_SUBMODULES} submodules, or too deep ones"
                raise RepositoryProblem("submodules", words)
            if place not in urls:
                raise RepositoryProblem("submodules", f"{visible(place)} is a submodule that .gitmodules does not name")
            try:
                below = Mirror(self._project, GitCode(git=urls[place]).git)
                below.commit(one.number)
            except ValidationError:
                words = f"the submodule {visible(place)} has the URL {visible(urls[place])}"
                raise RepositoryProblem("submodules", f"{words}, from which nothing is fetched") from None
            except RepositoryProblem as problem:
                raise RepositoryProblem("submodules", f"the submodule {visible(place)}: {problem}") from None
            self._read(below, one.number, f"{one.number}^{{tree}}", "", f"{prefix}{one.path}/", depth + 1)


def _folder_of(mirror: Mirror, tree: str, commit: str, code: GitCode) -> str:
    """Return the number of the folder that is the code."""
    try:
        number = run_git(["rev-parse", "--verify", "--quiet", tree], repository=mirror.folder)
        if not code.path:
            return number.decode().strip()
        below = f"{number.decode().strip()}:{code.path}"
        number = run_git(["rev-parse", "--verify", "--quiet", below], repository=mirror.folder)
        kind = run_git(["cat-file", "-t", number.decode().strip()], repository=mirror.folder)
    except GitFailed:
        kind = b""
    if kind.strip() != b"tree":
        words = f"has no folder {visible(code.path)} at commit {commit[:12]}: correct path, or leave it out"
        raise RepositoryProblem("path", f"{code.git} {words}")
    return number.decode().strip()


def _entries(repository: Path, tree: str) -> list[TreeEntry]:
    listing = run_git(["ls-tree", "-r", "-z", "-l", "--full-tree", tree], repository=repository)
    found = []
    for line in filter(None, listing.split(b"\0")):
        facts, _, path = line.partition(b"\t")
        mode, _, number, size = facts.decode().split()
        found.append(TreeEntry(mode, number, int(size) if size.isdecimal() else 0, path.decode(errors="replace")))
    return found


def _blobs(repository: Path, numbers: list[str]) -> Iterator[bytes]:
    """Yield the contents in the order of their numbers."""
    if not numbers:
        return
    data = run_git(["cat-file", "--batch"], repository=repository, data="".join(f"{one}\n" for one in numbers).encode())
    place = 0
    for _ in numbers:
        end = data.index(b"\n", place)
        size = int(data[place:end].split()[2])
        yield data[end + 1 : end + 1 + size]
        place = end + size + 2


def _patched(repository: Path, commit: str, patch: str) -> str:
    """Return the number of the tree that the patch makes of the commit's, by an index of its own."""
    with tempfile.TemporaryDirectory(prefix="trainyard-git-") as folder:
        variables = {"GIT_INDEX_FILE": f"{folder}/index"}
        run_git(["read-tree", commit], repository=repository, variables=variables)
        try:
            words = ["apply", "--cached", "--whitespace=nowarn", "-"]
            run_git(words, repository=repository, variables=variables, data=patch.encode())
        except GitFailed as error:
            lines = [line.removeprefix("error: ") for line in error.stderr.splitlines() if line.startswith("error: ")]
            why = f"does not apply to commit {commit[:12]} ({visible(lines[0] if lines else 'it is no patch')[:200]})"
            raise RepositoryProblem("patch", f"{why}: make it anew with git diff --binary HEAD") from None
        return run_git(["write-tree"], repository=repository, variables=variables).decode().strip()


def _submodule_urls(mirror: Mirror, commit: str) -> dict[str, str]:
    """Return by path what .gitmodules says; a relative URL begins at the repository's own."""
    try:
        text = run_git(["config", "--blob", f"{commit}:.gitmodules", "--list", "-z"], repository=mirror.folder)
    except GitFailed:
        return {}
    paths: dict[str, str] = {}
    urls: dict[str, str] = {}
    for line in text.decode(errors="replace").split("\0"):
        name, _, value = line.partition("\n")
        section, _, key = name.rpartition(".")
        if key == "path":
            paths[section] = value.rstrip("/")
        elif key == "url":
            urls[section] = value
    return {path: _absolute(mirror.url, urls[section]) for section, path in paths.items() if section in urls}


def _absolute(above: str, url: str) -> str:
    if not url.startswith(("./", "../")):
        return url
    if "://" in above:
        return urljoin(f"{above.rstrip('/')}/", url)
    host, _, path = above.partition(":")
    return f"{host}:{posixpath.normpath(posixpath.join(path, url))}"


def _lfs_words(names: list[str], url: str) -> str:
    """Ranks would read a few lines of text for weights or data: a failure far from its cause."""
    are = "is a file" if len(names) == 1 else "are files"
    return (
        f"{_some(names)} {are} of Git LFS, which is not fetched from {url}: ask for them with lfs: true, name a "
        "folder without them, or upload the code as a folder"
    )


def _some(names: list[str]) -> str:
    return listed([visible(name) for name in sorted(names)], at_most=4)
