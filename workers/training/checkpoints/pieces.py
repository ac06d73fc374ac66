"""Pieces of a training's state: tensors by name, of each of which a rank holds one rectangle."""

import math
from dataclasses import dataclass

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

Shape = tuple[int, ...]

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}  # by the names of the safetensors format
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of a tensor of shape ``whole``: it begins at ``offset`` and has ``shape``."""

    whole: Shape
    offset: Shape
    shape: Shape

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def is_first(self) -> bool:
        """Return whether it holds the element at the origin: of all regions of a tensor, one does."""
        return not any(self.offset) and self.num_elements > 0


@dataclass(frozen=True, slots=True)
class TensorPiece:
    """This rank's part of the tensor ``name``: ``local`` has the region's shape and is the training's own."""

    name: str
    region: Region
    local: torch.Tensor


def piece_of(name: str, tensor: torch.Tensor) -> TensorPiece:
    """Return this rank's piece of a tensor, the whole of it unless it is spread over ranks."""
    tensor = tensor.detach()
    whole = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return TensorPiece(name, Region(whole, (0,) * len(whole), whole), tensor)
    shape, offset = compute_local_shape_and_global_offset(whole, tensor.device_mesh, tensor.placements)
    local = tensor.to_local()
    assert tuple(local.shape) == tuple(shape), (name, local.shape, shape)
    return TensorPiece(name, Region(whole, tuple(offset), tuple(shape)), local)


def share_writing(held: list[dict[str, Region]]) -> list[set[str]]:
    """Return which of the pieces that it holds each rank writes, so that each region is written once.

    ``held[rank]`` are the regions by name. Copies share the work: the largest region goes first, to the rank with the
    least so far. Every rank comes to the same answer.
    """
    holders: dict[tuple[str, Shape], list[int]] = {}
    sizes: dict[tuple[str, Shape], int] = {}
    for rank, regions in enumerate(held):
        for name, region in regions.items():
            if region.num_elements:
                holders.setdefault((name, region.offset), []).append(rank)
                sizes[name, region.offset] = region.num_elements
    loads = [0] * len(held)
    written: list[set[str]] = [set() for _ in held]
    for key in sorted(holders, key=lambda key: (-sizes[key], key)):
        writer = min(holders[key], key=lambda rank: (loads[rank], rank))
        loads[writer] += sizes[key]
        written[writer].add(key[0])
    return written
