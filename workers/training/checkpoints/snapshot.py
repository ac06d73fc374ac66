"""A copy of a rank's state in host memory, laid out as the file will be: the only thing that training waits for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import torch

from workers.training.checkpoints.manifest import StoredPart, StoredTensor
from workers.training.checkpoints.pieces import DTYPE_NAMES, Region, TensorPiece


@dataclass(slots=True)
class Snapshot:
    """One safetensors file in memory. The buffer is allocated once and used again while the pieces stay the same.

    Format: the header's length (8 bytes, little endian), the header as JSON, the tensors one behind the other.
    """

    device: torch.device
    header: bytes = b""
    regions: dict[str, tuple[str, Region]] = field(default_factory=dict)  # name -> dtype and region
    _buffer: torch.Tensor | None = None
    _targets: list[torch.Tensor] = field(default_factory=list)

    def take(self, pieces: Sequence[TensorPiece]) -> None:
        """Copy the pieces. Returns when the copy is complete: what they were taken from may then change."""
        # By the size of their elements: each then begins where its type may.
        pieces = sorted(pieces, key=lambda piece: (-piece.local.element_size(), piece.name))
        regions = {piece.name: (DTYPE_NAMES[piece.local.dtype], piece.region) for piece in pieces}
        assert len(regions) == len(pieces), "two pieces of one name"
        if self._buffer is None or regions != self.regions:
            self._lay_out(pieces, regions)
        is_cuda = self.device.type == "cuda"
        with torch.no_grad():
            for target, piece in zip(self._targets, pieces, strict=True):
                target.copy_(piece.local, non_blocking=is_cuda)
        if is_cuda:
            torch.cuda.current_stream(self.device).synchronize()

    def stored_in(self, file: str) -> dict[str, StoredTensor]:
        """Return what a manifest says of the tensors once they lie in that file."""
        return {
            name: StoredTensor(dtype, region.whole, (StoredPart(file, region.offset, region.shape),))
            for name, (dtype, region) in self.regions.items()
        }

    @property
    def data(self) -> memoryview:
        """Bytes behind the header in the file."""
        assert self._buffer is not None
        return self._buffer.numpy().data

    def _lay_out(self, pieces: Sequence[TensorPiece], regions: dict[str, tuple[str, Region]]) -> None:
        sizes = [piece.region.num_elements * piece.local.element_size() for piece in pieces]
        places = list(pairwise(accumulate(sizes, initial=0)))
        self.header = _header_of(pieces, places)
        buffer = self._buffer = self._allocate(sum(sizes))
        self._targets = [
            buffer[slice(*place)].view(piece.local.dtype).view(piece.region.shape)
            for piece, place in zip(pieces, places, strict=True)
        ]
        self.regions = regions

    def _allocate(self, num_bytes: int) -> torch.Tensor:
        """Return room for so many bytes behind the header."""
        return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=self.device.type == "cuda")


def _header_of(pieces: Sequence[TensorPiece], places: Sequence[tuple[int, int]]) -> bytes:
    """Return the length and the JSON in front of the tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    for piece, place in zip(pieces, places, strict=True):
        dtype, shape = DTYPE_NAMES[piece.local.dtype], piece.region.shape
        header[piece.name] = {"dtype": dtype, "shape": shape, "data_offsets": place}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
