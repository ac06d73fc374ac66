"""Manifest of a checkpoint, in JSON. It is written last: a folder that has a valid one is whole."""

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

import msgspec

from trainyard.at_rest.chunks import CannotDecrypt, DecryptedFile, encrypted_bytes, is_encrypted
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.contract.base import JsonObject, prepared
from trainyard.spooling.plain_files import write_whole
from workers.training.checkpoints.pieces import DTYPES, Shape
from workers.training.checkpoints.random_state import RandomState
from workers.training.recipes import ModelDocument

MANIFEST = "manifest.json"
VERSION = 1
FILE_NAME = re.compile(r"rank-\d{1,9}\.safetensors")
LIMIT_BYTES = 1 << 30


class Damaged(Exception):
    """A checkpoint that cannot be used as it lies on the disk; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One region of a tensor, and the file it lies in."""

    file: str
    offset: Shape
    shape: Shape


@dataclass(frozen=True, slots=True)
class StoredTensor:
    dtype: str
    shape: Shape
    parts: tuple[StoredPart, ...]


@dataclass(frozen=True, slots=True)
class StoredFile:
    bytes: int
    sha256: str


class TrainingState(TypedDict):
    """State that a training keeps beside tensors. Fields that are not required are not in older checkpoints."""

    optimizer: str
    synchronization: str
    batch_size: int
    learning_rate: NotRequired[float]
    early_stopping: dict[str, float | None]
    precision: dict[str, float]
    samples: NotRequired[int]  # that came before, over all ranks and attempts
    skipped: NotRequired[list[list[int]]]  # of samples: the first, and the one behind the last
    balance: NotRequired[list[int]]  # rows of each rank


class StoredState(TrainingState):
    random: dict[str, RandomState]  # by rank


@dataclass(frozen=True, slots=True)
class Manifest:
    run: str
    step: int
    fence: int
    at: float
    model: ModelDocument
    world_size: int
    degrees: Mapping[str, int]
    state: StoredState
    tensors: Mapping[str, StoredTensor]
    files: Mapping[str, StoredFile]
    parameters: str = field(default="")  # a digest of the model's names, shapes and types
    version: int = VERSION

    @property
    def num_bytes(self) -> int:
        return sum(file.bytes for file in self.files.values())


def parameters_digest(tensors: Mapping[str, StoredTensor]) -> str:
    """Return the SHA-256 over names, shapes and types of the model's parameters: the same for every way to cut it."""
    lines = sorted(
        f"{name} {list(tensor.shape)} {tensor.dtype}\n" for name, tensor in tensors.items() if name.startswith("model/")
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def manifest_text(manifest: Manifest) -> str:
    """Return the manifest in JSON with a digest of itself, so that a flipped bit in it shows too."""
    document = asdict(manifest)
    return json.dumps({"sha256": digest_of(document), **document}, separators=(",", ":"), allow_nan=False)


def write_manifest(folder: Path, manifest: Manifest, keyring: Keyring = NO_KEYS) -> int:
    """Write ``manifest.json``, encrypted where the keyring encrypts; return its size."""
    data = manifest_text(manifest).encode()
    if keyring.encrypts:
        data = encrypted_bytes(keyring, file_context(manifest.run, manifest.fence, manifest.step, MANIFEST), data)
    write_whole(folder / MANIFEST, lambda temporary: temporary.write_bytes(data))
    return len(data)


def read_manifest(folder: Path, keyring: Keyring = NO_KEYS, context: str = "") -> Manifest:
    """Return the manifest of a checkpoint's folder. Raises Damaged where it is not there or not as it was written.
    ``context`` is what one that is encrypted was encrypted as."""
    try:
        text = decrypted(_read(folder), keyring, context).decode()
    except OSError as error:
        raise Damaged(f"{MANIFEST} cannot be read: {error.strerror or error}") from error
    except CannotDecrypt as error:
        raise Damaged(f"{MANIFEST} cannot be decrypted: {error}") from error
    except UnicodeDecodeError as error:
        raise Damaged(f"{MANIFEST} is not as it was written: {error}") from error
    return parse_manifest(text)


def parse_manifest(text: str) -> Manifest:
    """Return the manifest in the text. Raises Damaged where it is not as it was written."""
    try:
        document = json.loads(text)
        claimed, version = document.pop("sha256"), document["version"]
        if isinstance(version, int) and version > VERSION:  # what its digest is over is for that version to say
            raise Damaged(f"{MANIFEST} has version {version}; this Trainyard reads version {VERSION}: update it")
        if claimed != digest_of(document):
            raise Damaged(f"{MANIFEST} is not as it was written: its SHA-256 differs")
        if version != VERSION:
            raise Damaged(f"{MANIFEST} has version {version}; this Trainyard reads version {VERSION}")
        return _parse(document)
    # What is not JSON at all, not a mapping, or a mapping without what must be there.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(f"{MANIFEST} is not as it was written: {error}") from error


def _read(folder: Path) -> bytes:
    if not folder.is_dir():
        raise Damaged(f"its folder {folder} is not there")
    path = folder / MANIFEST
    if path.stat().st_size > LIMIT_BYTES:
        raise Damaged(f"{MANIFEST} has {path.stat().st_size} bytes; at most {LIMIT_BYTES} are read")
    return path.read_bytes()


def _parse(document: JsonObject) -> Manifest:
    manifest = msgspec.convert(document, prepared(Manifest))
    for name in manifest.files:
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a file here")
    for name, tensor in manifest.tensors.items():
        if tensor.dtype not in DTYPES:
            raise ValueError(f"{name} has type {tensor.dtype!r}")
        for part in tensor.parts:
            if part.file not in manifest.files:
                raise ValueError(f"{name} is said to lie in {part.file!r}, which is not in the list of files")
        # Regions that ranks wrote do not overlap, so the count shows whether one is missing.
        found, wanted = sum(math.prod(part.shape) for part in tensor.parts), math.prod(tensor.shape)
        if found != wanted:
            raise ValueError(f"{name} has {found} of its {wanted} elements")
    return manifest


def digest_of(document: JsonObject) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# Binding of an encrypted checkpoint's files to their place, and encryption of small ones as a whole.


def file_context(run: str, fence: int, step: int, name: str) -> str:
    """A file of another checkpoint, or of another rank, does not open in its place."""
    return f"checkpoint|{run}|{fence}|{step}|{name}"


def decrypted(data: bytes, keyring: Keyring, context: str) -> bytes:
    """Return the content, which is ``data`` itself where it is not encrypted. Raises CannotDecrypt."""
    return DecryptedFile(io.BytesIO(data), keyring, context).read() if is_encrypted(data) else data
