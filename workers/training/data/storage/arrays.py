"""Arrays that grow on the disk row by row, so that what makes them never holds them whole."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = np.ndarray[Any, np.dtype[Any]]

HEADER_BYTES = 128  # of the version 1.0 of the format, padded: the number of rows is written last, in the same place


class NpyWriter(AbstractContextManager["NpyWriter"]):
    """A ``.npy`` file of rows of ``shape`` (none: numbers), appended in blocks; it is one once it is closed.

    The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    """

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
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.num_rows, *self.shape)}
        magic = np.lib.format.magic(1, 0)
        room = HEADER_BYTES - len(magic) - 2
        text = f"{about!r:<{room - 1}}\n".encode("latin1")
        assert len(text) == room, text
        self._file.seek(0)
        self._file.write(magic + room.to_bytes(2, "little") + text)
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
