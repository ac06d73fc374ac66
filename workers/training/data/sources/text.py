"""Text to continue, from wherever it comes: pieces of bytes, each to train on or to validate on, never held whole."""

import hashlib
import json
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trainyard.spec.sections.data import TextData
from workers.training.data.problems import DataProblem, NodeDataProblem
from workers.training.data.sources.files import SUFFIXES, Files, find_files

SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
ONE_OF = 20  # pieces validates
PIECE_BYTES = 2**20
SMALLEST_BLOCK_BYTES = 16 * 2**10
NUM_BLOCKS = 10 * ONE_OF  # of a file that is no larger than so many pieces
MAX_LINE_BYTES = 64 * 2**20


class Piece(NamedTuple):
    """Some bytes; those of the same side follow each other as they come."""

    validates: bool
    text: bytes


def open_text(data: TextData) -> "TextSource":
    """Return the text that ``task.data`` of a language model names. Raises DataProblem for what is not there."""
    if data.source == "python-stdlib":
        return StandardLibrary(Path(sysconfig.get_path("stdlib")))
    files = find_files(data.location, SUFFIXES[data.source], data.digest)
    return TextFiles(files) if data.source == "text" else JsonLines(files, data.text_field)


class StandardLibrary:
    """The sources of Python's standard library, which are on every machine; not its tests, nor installed packages."""

    name = "python-stdlib"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths = sorted(self._walked())
        digest, self.size_bytes = hashlib.sha256(os.fsencode(root)), 0
        for path in self._paths:
            found = os.stat(f"{root}/{path}")  # noqa: PTH116  # a thousand times, at the start of each rank
            digest.update(os.fsencode(path) + f"\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
            self.size_bytes += found.st_size
        self.key = f"python-stdlib {digest.hexdigest()}"

    def pieces(self) -> Iterator[Piece]:
        for path in self._paths:
            yield Piece(is_validation(path), (self._root / path).read_bytes())

    def _walked(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
            relative = os.path.relpath(folder, self._root)
            yield from (os.path.normpath(f"{relative}/{name}") for name in names if name.endswith(".py"))


@dataclass(frozen=True)
class _OfFiles:
    files: Files

    @property
    def name(self) -> str:
        return self.files.location

    @property
    def size_bytes(self) -> int:
        return self.files.size_bytes


@dataclass(frozen=True)
class TextFiles(_OfFiles):
    """Files of text. Among many, some whole ones validate, by their names; of a few, some blocks of each."""

    @property
    def key(self) -> str:
        return f"text {self.files.key}"

    def pieces(self) -> Iterator[Piece]:
        names = self.files.names
        sides = [is_validation(name) for name in names]
        is_by_name = len(names) >= ONE_OF and any(sides) and not all(sides)
        for path, name, validates in zip(self.files.paths, names, sides, strict=True):
            try:
                with path.open("rb") as file:
                    yield from whole(file, validates) if is_by_name else blocks(file, name)
            except OSError as error:
                raise not_readable(path, error) from None


@dataclass(frozen=True)
class JsonLines(_OfFiles):
    """Files with a JSON object on each line, one field of which is text. Of 20 lines one validates; of few the last."""

    field: str

    @property
    def key(self) -> str:
        return f"jsonl {self.field!r} {self.files.key}"

    def pieces(self) -> Iterator[Piece]:
        last, has_validated = None, False
        for number, text in enumerate(self.texts()):
            if last is not None:
                yield last
            encoded = text.encode(errors="surrogatepass")
            last = Piece(is_chosen("jsonl", number), encoded if encoded.endswith(b"\n") else encoded + b"\n")
            has_validated = has_validated or last.validates
        if last is not None:
            yield last if has_validated else Piece(True, last.text)

    def texts(self) -> Iterator[str]:
        """Yield the text of each line but the empty ones. Raises DataProblem with file and line for what is none."""
        for path in self.files.paths:
            shown = self.files.name_of(path)
            try:
                with path.open("rb") as file:
                    for number, line in enumerate(lines(file, shown), start=1):
                        if line.strip():
                            yield read_line(line, self.field, f"{shown}, line {number}")
            except OSError as error:
                raise not_readable(path, error) from None


TextSource = StandardLibrary | TextFiles | JsonLines


def is_validation(name: str) -> bool:
    """Say on which side of the split a file is: by its name's hash, so that it never moves when others come or go."""
    return int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8], "big") < 2**64 // ONE_OF


def is_chosen(name: str, number: int) -> bool:
    """Say whether this one of the numbered parts of ``name`` validates: one of each ONE_OF, anywhere among them."""
    group, place = divmod(number, ONE_OF)
    return place == int.from_bytes(hashlib.sha256(os.fsencode(f"{name} {group}")).digest()[:8], "big") % ONE_OF


def whole(file: BinaryIO, validates: bool) -> Iterator[Piece]:
    """Yield a file that is all on one side, with a line's end behind it."""
    last = b"\n"
    while text := file.read(PIECE_BYTES):
        last = text[-1:]
        yield Piece(validates, text)
    if last != b"\n":
        yield Piece(validates, b"\n")


def blocks(file: BinaryIO, name: str) -> Iterator[Piece]:
    """Yield a file in blocks of whole lines, of which one of ONE_OF validates; of a small file it is its end."""
    size = os.fstat(file.fileno()).st_size
    if size < 2 * ONE_OF * SMALLEST_BLOCK_BYTES:  # a block with the line that it ends in may be twice as long
        first, line, rest = file.read(size - size // ONE_OF), file.readline(), file.read()
        yield Piece(False, first + line if rest else first)
        yield Piece(True, rest or line)  # one line to its end is cut
        return
    block = min(max(size // NUM_BLOCKS, SMALLEST_BLOCK_BYTES), PIECE_BYTES)
    number = 0
    while text := file.read(block) + file.readline(block):
        yield Piece(is_chosen(name, number), text)
        number += 1


def lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise DataProblem(f"{name} has a line of more than {MAX_LINE_BYTES >> 20} MiB: is it JSON by the line?")
        yield line


def read_line(line: bytes, field: str, where: str) -> str:
    """Return the text of a line. Raises DataProblem, naming the place."""
    try:
        row = json.loads(line.rstrip())
    except json.JSONDecodeError as error:
        raise DataProblem(
            f"{where} is no JSON ({error.msg}, at character {error.pos + 1}): correct it or take it out"
        ) from None
    except UnicodeDecodeError:
        raise DataProblem(f"{where} is not UTF-8: write the file anew in UTF-8") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        raise DataProblem(f"{where} cannot be read as JSON ({error}): correct it or take it out") from None
    if not isinstance(row, dict):
        raise DataProblem(f"{where} is no JSON object: each line is one, such as {{{json.dumps(field)}: …}}")
    if field not in row:
        there = ", ".join(map(str, list(row)[:10])) or "none"
        raise DataProblem(f"{where} has no field {field!r}: let task.data.text_field name one of its own ({there})")
    text = row[field]
    if not isinstance(text, str):
        raise DataProblem(f"{where} has no text but {json.dumps(text)[:40]} in its field {field!r}")
    return text


def not_readable(path: Path, error: OSError) -> NodeDataProblem:
    return NodeDataProblem(f"{path} cannot be read: {error.strerror}")
