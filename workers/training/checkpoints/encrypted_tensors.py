"""A safetensors file that is encrypted: of each tensor only the chunks are decrypted that hold what is needed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from trainyard.at_rest.chunks import CannotDecrypt, DecryptedFile
from trainyard.at_rest.keyring import Keyring
from trainyard.contract.base import JsonObject
from workers.training.checkpoints.pieces import DTYPES

LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies: ``start`` counts from the beginning of the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int


class EncryptedTensors:
    """A context manager, as ``safetensors.safe_open`` is one."""

    def __init__(self, path: Path, keyring: Keyring, context: str) -> None:
        """Raises CannotDecrypt and OSError."""
        self._raw = path.open("rb", buffering=0)
        try:
            self._file = DecryptedFile(self._raw, keyring, context)
            self._places = self._read_header()
        except BaseException:
            self._raw.close()
            raise

    def __enter__(self) -> EncryptedTensors:
        return self

    def __exit__(self, *exception: object) -> None:
        self._raw.close()

    def read(self, name: str, there: tuple[slice, ...]) -> torch.Tensor:
        """Return these slices of a tensor; all of one that has no dimensions. Raises CannotDecrypt."""
        place = self._places.get(name)
        if place is None:
            raise CannotDecrypt(f"{name} is not in it")
        rows = there[0] if there else slice(0, 1)
        row_shape = place.shape[1:]
        row_bytes = math.prod(row_shape) * place.dtype.itemsize
        # One buffer, and each chunk goes to its place in it: a tensor may be as large as what is left of memory.
        data = bytearray((rows.stop - rows.start) * row_bytes)
        at = 0
        for piece in self._file.pieces(place.start + rows.start * row_bytes, len(data)):
            data[at : at + len(piece)] = piece
            at += len(piece)
        if at < len(data):
            raise CannotDecrypt(f"{name} ends behind {at} of {len(data)} bytes")
        if not data:
            return torch.empty([0, *row_shape] if there else [], dtype=place.dtype)
        found = torch.frombuffer(data, dtype=place.dtype).view(-1, *row_shape)
        return found[(slice(None), *there[1:])] if there else found.view(())

    def _read_header(self) -> dict[str, _Place]:
        length = int.from_bytes(self._file.read(0, LENGTH_BYTES), "little")
        if length > self._file.size:
            raise CannotDecrypt(f"its header would have {length} bytes")
        document: JsonObject = json.loads(self._file.read(LENGTH_BYTES, length))
        document.pop("__metadata__", None)
        first = LENGTH_BYTES + length
        return {
            name: _Place(DTYPES[one["dtype"]], tuple(one["shape"]), first + one["data_offsets"][0])
            for name, one in document.items()
        }
