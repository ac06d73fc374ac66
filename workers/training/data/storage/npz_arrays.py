"""Arrays in NPZ files, read in blocks: a packed one would otherwise be whole in memory as soon as it is touched."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from workers.training.data.problems import DataProblem

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_BYTES = 128  # NumPy leaves room in it for any number of rows, which is written last, in the same place


class NpyWriter(AbstractContextManager["NpyWriter"]):
    """A ``.npy`` file of rows of ``shape`` (none: numbers), appended in blocks; it is one once it is closed."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, shape: tuple[int, ...] = ()) -> None:
        self.num_rows = 0
        self.dtype, self.shape = np.dtype(dtype), shape
        self._file = path.open("wb")
        self._file.write(bytes(HEADER_BYTES))

    def append(self, rows: Array) -> None:
        """Write these rows, (rows, *shape), behind the others."""
        if rows.shape[1:] != self.shape:
            raise ValueError(f"rows have the shape {rows.shape[1:]}, these are {self.shape}")
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.num_rows += len(rows)

    def close(self) -> None:
        if self._file.closed:
            return
        self._file.seek(0)
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.num_rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self._file, about)
        assert self._file.tell() == HEADER_BYTES, about
        self._file.close()

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self.close()
        else:
            self._file.close()


def open_array(path: Path) -> Array:
    """Map a ``.npy`` file into memory, to be read only. Without rows there is nothing to map."""
    array: Array = np.load(path, mmap_mode="r" if path.stat().st_size > HEADER_BYTES else None)
    return array


BLOCK_BYTES = 8 * 2**20
NOT_WHOLE = (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError)


@dataclass(frozen=True, slots=True)
class NpzArray:
    """An array of an NPZ file, without its values."""

    path: Path
    file_name: str  # for people
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def place(self) -> str:
        return f"{self.file_name}, array {self.name!r}"

    def blocks(self, num_rows: int = 0) -> Iterator[Array]:
        """Yield its rows from the first to the last, so many at once (0: as many as fit into some megabytes)."""
        row_bytes = max(1, self.dtype.itemsize * int(np.prod(self.shape[1:])))
        at_once = num_rows or max(1, BLOCK_BYTES // row_bytes)
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(f"{self.name}.npy") as file:
                _read_header(file)
                for start in range(0, self.shape[0], at_once):
                    rows = min(at_once, self.shape[0] - start)
                    content = file.read(rows * row_bytes)
                    if len(content) < rows * row_bytes:
                        raise EOFError(f"it ends in row {start + len(content) // row_bytes}")
                    yield np.frombuffer(content, self.dtype).reshape(rows, *self.shape[1:])
        except NOT_WHOLE as error:
            raise DataProblem(f"{self.place} cannot be read ({error}): write it again") from None

    def whole(self) -> Array:
        """Return all values; for those that there is one of a row."""
        return np.concatenate([*self.blocks()]) if self.shape[0] else np.empty(self.shape, self.dtype)


def read_npz(path: Path, file_name: str) -> dict[str, NpzArray]:
    """Return the arrays of an NPZ file by their names.

    Raises DataProblem for what is no NPZ file, and for arrays of Python objects, which only a pickle can hold.
    """
    arrays = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if not member.endswith(".npy"):
                    continue
                name = member.removesuffix(".npy")
                with archive.open(member) as file:
                    shape, is_fortran, dtype = _read_header(file)
                if dtype.hasobject:
                    raise DataProblem(f"{file_name}, array {name!r} holds Python objects: save numbers or text")
                if is_fortran and len(shape) > 1:
                    raise DataProblem(
                        f"{file_name}, array {name!r} lies column by column: save np.ascontiguousarray({name})"
                    )
                arrays[name] = NpzArray(path, file_name, name, shape, dtype)
    except DataProblem:
        raise
    except NOT_WHOLE as error:
        raise DataProblem(f"{file_name} is not a whole NPZ file ({error}): write it with np.savez") from None
    return arrays


def pick(arrays: dict[str, NpzArray], file_name: str, *names: str) -> NpzArray:
    """Return the first of these that is there. Raises DataProblem, which names what is there, where none is."""
    for name in names:
        if name in arrays:
            return arrays[name]
    has = ", ".join(arrays) or "none"
    raise DataProblem(f"{file_name} has no array {' or '.join(map(repr, dict.fromkeys(names)))}; its arrays are {has}")


def refuse_other_rows(inputs: NpzArray, targets: NpzArray) -> None:
    """Raise DataProblem unless each row of ``inputs`` has one target."""
    if len(targets.shape) != 1 or not inputs.shape or targets.shape[0] != inputs.shape[0]:
        words = "there is one target for each row"
        raise DataProblem(f"{targets.place} has the shape {targets.shape} and {inputs.name!r} {inputs.shape}: {words}")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    return shape, is_fortran, dtype
