"""Reading from a checkpoint: are its files as they were written, and the regions of tensors that a rank needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from trainyard.at_rest.chunks import MAGIC, CannotDecrypt, is_encrypted
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from workers.training.checkpoints.encrypted_tensors import EncryptedTensors
from workers.training.checkpoints.encryption import file_context
from workers.training.checkpoints.manifest import Damaged, Manifest, StoredPart
from workers.training.checkpoints.pieces import DTYPES, Region

CHUNK_BYTES = 4 << 20


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
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


class Reader:
    """Reads regions of the tensors of one checkpoint; each file is opened once. A context manager."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        places: Mapping[str, Path] | None = None,
        *,
        keyring: Keyring = NO_KEYS,
    ) -> None:
        """``places`` are the files that do not lie in ``folder``, by name."""
        self._keyring = keyring
        self._folder = folder
        self._places = places or {}
        self._manifest = manifest
        self._files: dict[str, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Reader:
        return self

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
                common = intersection(region, part)
                if common is not None:
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
