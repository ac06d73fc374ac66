"""Reading from a checkpoint: are its files as they were written, and the regions of tensors that a rank needs."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from trainyard.at_rest.chunks import MAGIC, CannotDecrypt, DecryptedFile, is_encrypted
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.contract.base import JsonObject
from workers.training.build import Training
from workers.training.checkpoints.manifest import MANIFEST, Damaged, Manifest, StoredPart, file_context, read_manifest
from workers.training.checkpoints.pieces import DTYPES, Region, Shape
from workers.training.checkpoints.state import Parameters, regions_to_read
from workers.training.checkpoints.store import Candidate
from workers.training.group import gather_all

LENGTH_BYTES = 8


def check_files(folder: Path, manifest: Manifest, share: int, num_shares: int) -> None:
    """Read this share of the files and compare their digests. Raises Damaged for the first that differs.

    The largest are dealt out first, so that the shares are about equal. Sizes are compared by all: that is cheap.
    """
    names = sorted(manifest.files, key=lambda name: (-manifest.files[name].bytes, name))
    for name in names:
        stored = manifest.files[name]
        try:
            num_bytes = (folder / name).stat().st_size
        except OSError as error:
            raise Damaged(f"{name} cannot be read: {error.strerror or error}") from error
        if num_bytes != stored.bytes:
            raise Damaged(f"{name} has {num_bytes} bytes of its {stored.bytes}")
    for name in names[share::num_shares]:
        if sha256_of(folder / name) != manifest.files[name].sha256:
            raise Damaged(f"{name} is not as it was written: its SHA-256 differs")


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror or error}") from error


class CheckpointReader(AbstractContextManager["CheckpointReader"]):
    """Reads regions of the tensors of one checkpoint; each file is opened once. A context manager."""

    def __init__(
        self, folder: Path, manifest: Manifest, places: Mapping[str, Path] | None = None, *, keyring: Keyring = NO_KEYS
    ) -> None:
        """``places`` are the files that do not lie in ``folder``, by name."""
        self._keyring, self._folder = keyring, folder
        self._places = places or {}
        self._manifest = manifest
        self._files: dict[str, Any] = {}
        self._stack = ExitStack()

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def read(self, name: str, region: Region) -> torch.Tensor:
        """Return the region of tensor ``name`` on the CPU, of the stored type. Raises Damaged where it cannot be read.

        Of each file only the bytes that lie in the region are touched.
        """
        stored = self._manifest.tensors[name]
        assert stored.shape == region.whole, (name, stored.shape, region.whole)
        result = torch.empty(region.shape, dtype=DTYPES[stored.dtype])
        found = 0
        try:
            for part in stored.parts:
                if (common := intersection(region, part)) is not None:
                    here, there = common
                    result[here] = self._slice(part.file, name, there)
                    found += result[here].numel()
        except (OSError, SafetensorError) as error:
            raise Damaged(f"{name} cannot be read: {error}") from error
        except CannotDecrypt as error:
            raise Damaged(f"{name} cannot be decrypted: {error}") from error
        if found != region.num_elements:
            raise Damaged(f"{name} has {found} of the {region.num_elements} elements of a region that is needed")
        return result

    def _slice(self, file: str, name: str, there: tuple[slice, ...]) -> torch.Tensor:
        if file not in self._files:
            self._files[file] = self._stack.enter_context(self._open(file))
        opened = self._files[file]
        if isinstance(opened, EncryptedTensors):
            return opened.read(name, there)
        tensor: torch.Tensor = opened.get_slice(name)[there] if there else opened.get_tensor(name)
        return tensor

    def _open(self, file: str) -> Any:
        path, manifest = self._places.get(file, self._folder / file), self._manifest
        with path.open("rb") as opened:
            start = opened.read(len(MAGIC))
        if is_encrypted(start):
            context = file_context(manifest.run, manifest.fence, manifest.step, file)
            return EncryptedTensors(path, self._keyring, context)
        return safe_open(path, framework="pt")


def intersection(region: Region, part: StoredPart) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Return what region and part have in common, as slices of the one and of the other; None where nothing is."""
    here, there = [], []
    for mine, size, theirs, extent in zip(region.offset, region.shape, part.offset, part.shape, strict=True):
        start, end = max(mine, theirs), min(mine + size, theirs + extent)
        if start >= end:
            return None
        here.append(slice(start - mine, end - mine))
        there.append(slice(start - theirs, end - theirs))
    return tuple(here), tuple(there)


# A safetensors file that is encrypted: of each tensor only the chunks are decrypted that hold what is needed.


class EncryptedTensors(AbstractContextManager["EncryptedTensors"]):
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

    def __exit__(self, *exception: object) -> None:
        self._raw.close()

    def read(self, name: str, there: tuple[slice, ...]) -> torch.Tensor:
        """Return these slices of a tensor; all of one that has no dimensions. Raises CannotDecrypt."""
        if name not in self._places:
            raise CannotDecrypt(f"{name} is not in it")
        dtype, shape, start = self._places[name]
        rows = there[0] if there else slice(0, 1)
        row_shape = shape[1:]
        row_bytes = math.prod(row_shape) * dtype.itemsize
        # One buffer, and each chunk goes to its place in it: a tensor may be as large as what is left of memory.
        data = bytearray((rows.stop - rows.start) * row_bytes)
        at = 0
        for piece in self._file.pieces(start + rows.start * row_bytes, len(data)):
            data[at : at + len(piece)] = piece
            at += len(piece)
        if at < len(data):
            raise CannotDecrypt(f"{name} ends behind {at} of {len(data)} bytes")
        if not data:
            return torch.empty([0, *row_shape] if there else [], dtype=dtype)
        found = torch.frombuffer(data, dtype=dtype).view(-1, *row_shape)
        return found[(slice(None), *there[1:])] if there else found.view(())

    def _read_header(self) -> dict[str, tuple[torch.dtype, Shape, int]]:
        """Return each tensor's type, its shape, and its place from the beginning of the file."""
        length = int.from_bytes(self._file.read(0, LENGTH_BYTES), "little")
        if length > self._file.size:
            raise CannotDecrypt(f"its header would have {length} bytes")
        document: JsonObject = json.loads(self._file.read(LENGTH_BYTES, length))
        document.pop("__metadata__", None)
        return {
            name: (DTYPES[one["dtype"]], tuple(one["shape"]), LENGTH_BYTES + length + one["data_offsets"][0])
            for name, one in document.items()
        }


NUM_NAMES = 3  # that a refusal names


@dataclass(frozen=True, slots=True)
class Found:
    """A valid checkpoint, and what this rank needs of it, in host memory."""

    candidate: Candidate
    manifest: Manifest
    tensors: dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Refused:
    """A damaged one, and what is wrong with it."""

    candidate: Candidate
    why: str


def choose(
    candidates: Iterable[Candidate], training: Training, parameters: Parameters, kind: str
) -> tuple[Found | None, list[Refused]]:
    """Return the first that is whole and readable on every rank, and those before it. A collective.

    Raises ValueError, on every rank, for one that is whole and of another model.
    """
    refused: list[Refused] = []
    for candidate in candidates:
        manifest, why = _check(candidate, training.mesh.rank, training.mesh.world_size)
        if first := _first(why):
            refused.append(Refused(candidate, first))
            continue
        assert manifest is not None
        refuse_other_model(candidate, manifest, parameters)
        tensors, why = _read(candidate, manifest, training, parameters, kind)
        if first := _first(why):
            refused.append(Refused(candidate, first))
            continue
        return Found(candidate, manifest, tensors), refused
    return None, refused


def _first(why: str | None) -> str | None:
    return next((reason for reason in gather_all(why) if reason is not None), None)


def _check(candidate: Candidate, rank: int, world_size: int) -> tuple[Manifest | None, str | None]:
    try:
        manifest = read_manifest(candidate.folder, candidate.keyring, candidate.context(MANIFEST))
        if (manifest.step, manifest.fence) != (candidate.mark.step, candidate.mark.fence):
            raise Damaged(f"its manifest is of step {manifest.step}, fence {manifest.fence}")
        check_files(candidate.folder, manifest, rank, world_size)
    except Damaged as error:
        return None, str(error)
    return manifest, None


def _read(
    candidate: Candidate, manifest: Manifest, training: Training, parameters: Parameters, kind: str
) -> tuple[dict[str, torch.Tensor], str | None]:
    try:
        with CheckpointReader(candidate.folder, manifest, keyring=candidate.keyring) as reader:
            regions = regions_to_read(training, parameters, manifest, kind)
            return {name: reader.read(name, region) for name, region in regions.items()}, None
    except Damaged as error:
        return {}, str(error)


def refuse_other_model(candidate: Candidate, manifest: Manifest, parameters: Parameters) -> None:
    """Raise ValueError, on every rank alike, unless the checkpoint has this model's parameters in their shapes."""
    own: Mapping[str, Shape] = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    here = {name: shape for shapes in gather_all(own) for name, shape in shapes.items()}
    there = {
        name.removeprefix("model/"): tensor.shape
        for name, tensor in manifest.tensors.items()
        if name.startswith("model/")
    }
    differences = [
        f"{name} is {there.get(name, 'not')} there and {here.get(name, 'not')} here"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]
    if differences:
        more = f" and {len(differences) - NUM_NAMES} more" if len(differences) > NUM_NAMES else ""
        raise ValueError(
            f"checkpoint.restore: {candidate.mark.name} of run {candidate.run} is of another model: "
            f"{'; '.join(differences[:NUM_NAMES])}{more}"
        )
