"""The files that ``task.data.location`` names, on this node: a file, a folder, or what was fetched from a URL."""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from workers.data_access import path_problem
from workers.training.data.fetching.fetch import fetched, fetched_file, is_local, is_url, shown, without_file_scheme
from workers.training.data.problems import DataProblem, NodeDataProblem
from workers.training.data.storage.cache import cached, read_facts, write_facts

# Files of a folder that a source reads, by the ends of names; a file that is named itself may have any name.
SUFFIXES: dict[str, tuple[str, ...]] = {
    "text": (),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "images": (".png", ".jpg", ".jpeg", ".webp", ".gif"),
}
NUM_HASHING_THREADS = 4


@dataclass(frozen=True)
class Files:
    """Regular files below ``root`` in the order of their names, as bytes compare; ``root`` itself, where it is one."""

    location: str  # for people
    root: Path
    paths: list[Path]

    @property
    def is_folder(self) -> bool:
        return self.paths != [self.root]

    @cached_property
    def names(self) -> list[str]:
        """The paths below ``root``, with slashes; of a single file its own name."""
        return [self._below(path) for path in self.paths] if self.is_folder else [self.root.name]

    def _below(self, path: Path) -> str:
        return str(path)[len(f"{self.root}/") :]

    @cached_property
    def key(self) -> str:
        """A name for this state of the files without reading them: names, sizes and times of change, also
        the system's own: tools that copy files set the other one back."""
        digest = hashlib.sha256(os.fsencode(self.root))
        for path in self.paths:
            found = path.stat()
            state = f"\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_ctime_ns}\0"
            digest.update(os.fsencode(path) + state.encode())
        return f"{self.root.name} {digest.hexdigest()}"

    @cached_property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def name_of(self, path: Path) -> str:
        """Return how messages name one of the files."""
        return f"{self.location.rstrip('/')}/{readable(self._below(path))}" if self.is_folder else self.location


def readable(name: str) -> str:
    """Return a file's name as text that can be written anywhere, also where it is no UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def find_files(location: str, suffixes: Sequence[str], digest: str = "") -> Files:
    """Return the files of ``location``, sorted; those of a URL are fetched once into the node's cache.

    A folder gives its files whose names end in one of ``suffixes`` (none: all), at any depth, but no hidden ones.
    Raises DataProblem for what is not there, is empty, may not be read, or has another content than ``digest`` says.
    """
    is_fetched, name = is_url(location), shown(location)
    root = fetched(location, suffixes, local=_local_archive) if is_fetched else _local_root(location)
    try:
        mode = root.stat().st_mode
        if stat.S_ISDIR(mode):
            paths = sorted(_walked(root, tuple(suffixes)), key=os.fsencode)
            if not paths:
                kinds = f"a file that ends in {' or '.join(suffixes)}" if suffixes else "a file"
                raise NodeDataProblem(f"task.data.location is {name}, a folder without {kinds}: put some there")
        elif stat.S_ISREG(mode):
            paths = [root]
        else:
            raise DataProblem(f"task.data.location is {name}, which is neither a file nor a folder")
    except OSError as error:
        raise _not_readable(name, error) from None
    for path in paths:
        if not os.access(path, os.R_OK):
            raise NodeDataProblem(f"{path} may not be read by user {os.getuid()} of {_node()}: change its permissions")
        if not is_fetched:  # a link may lead anywhere
            _refuse_outside(path)
    files = Files(name, root, paths)
    if digest and (found := content_digest(files)) != digest:
        raise NodeDataProblem(
            f"task.data.digest is {digest}, but {name} has the content {found} on {_node()}: bring back what "
            "it was, or take the digest of what is there"
        )
    return files


def content_digest(files: Files) -> str:
    """Return the SHA-256 of a file; of a folder that of the lines which ``sha256sum`` prints for its files."""

    def build(folder: Path) -> None:
        write_facts(folder, {"digest": _digest(files)})

    return str(read_facts(cached(f"digest {files.key}", build))["digest"])


def _local_root(location: str) -> Path:
    path = Path(without_file_scheme(location))
    if not path.is_absolute():
        raise DataProblem(f"task.data.location is {location}: give a whole path, which begins with /, or a URL")
    _refuse_outside(path)
    return path


def _local_archive(location: str) -> Path:
    """Return the file of an archive, fetched where it is a URL's."""
    if not is_local(location):
        return fetched_file(location)
    root = _local_root(location)
    try:
        mode = root.stat().st_mode
    except OSError as error:
        raise _not_readable(location, error) from None
    if not stat.S_ISREG(mode) or not os.access(root, os.R_OK):
        raise NodeDataProblem(f"task.data.location is {location}, which is no file that user {os.getuid()} may read")
    return root


def _walked(folder: Path, ends: tuple[str, ...], above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
    """Yield the files below; links are followed, but not into one of the folders ``above``."""
    found = folder.stat()
    here = (found.st_dev, found.st_ino)
    if here in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            if entry.is_dir():
                yield from _walked(Path(entry.path), ends, above | {here})
            elif entry.is_file() and (not ends or entry.name.lower().endswith(ends)):
                yield Path(entry.path)


def _refuse_outside(path: Path) -> None:
    if problem := path_problem(path):
        raise NodeDataProblem(problem)


def _not_readable(name: str, error: OSError) -> NodeDataProblem:
    node = _node()
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NodeDataProblem(
            f"task.data.location is {name}, which is not on {node}: put it on every node, or give a URL"
        )
    if isinstance(error, PermissionError):
        return NodeDataProblem(
            f"{error.filename or name} may not be read by user {os.getuid()} of {node}: change its permissions"
        )
    return NodeDataProblem(f"task.data.location is {name}, which {node} cannot read: {error.strerror}")


def _node() -> str:
    name = os.environ.get("TRAINYARD_NODE")
    return f"the node {name}" if name else "this machine"


def _digest(files: Files) -> str:
    with ThreadPoolExecutor(NUM_HASHING_THREADS) as threads:
        digests = threads.map(_file_digest, files.paths)
        if not files.is_folder:
            return next(digests)
        whole = hashlib.sha256()
        for name, digest in zip(files.names, digests, strict=True):
            whole.update(f"{digest}  ".encode() + os.fsencode(name) + b"\n")
        return whole.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
