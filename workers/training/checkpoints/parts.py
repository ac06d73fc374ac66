"""Each rank's part of a checkpoint: a file of tensors, and a note beside it that says it is whole.

The notes are also how rank 0 learns that the other ranks are done. A collective cannot serve here: the writing happens
in a thread beside the training, whose own collectives must keep their order.
"""

import errno
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trainyard.at_rest.chunks import encrypted_bytes, encrypted_pieces
from trainyard.at_rest.keyring import NO_KEYS, Keyring
from trainyard.contract.base import WireStruct, encode, prepared
from trainyard.spooling.plain_files import sync, write_whole
from workers.training.checkpoints.manifest import StoredFile, StoredTensor, decrypted
from workers.training.checkpoints.random_state import RandomState
from workers.training.checkpoints.snapshot import Snapshot

CHUNK_BYTES = 4 << 20  # written and hashed without the interpreter's lock, so that training goes on meanwhile
POLL_S = 0.01
MAX_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class PartNote:
    """Description of another rank's part, which rank 0 reads: its tensors with the region that this rank has written,
    its file (none where it has no tensors), its random state, and the seconds for which training stood still."""

    tensors: Mapping[str, StoredTensor]
    files: Mapping[str, StoredFile]
    random: RandomState
    stall_s: float

    @classmethod
    def of(cls, text: str) -> "PartNote":
        return msgspec.json.decode(text, type=prepared(cls))


class PartRefusal(WireStruct):
    """The reason why a rank writes no note, in its place."""

    why: str = ""


class PartMissing(Exception):
    """A rank's part has not come, or that rank says why it cannot come."""


@dataclass(frozen=True, slots=True)
class PartEncryption:
    """Keys that encrypt a rank's part, and the checkpoint that it belongs to. Without keys it is not encrypted."""

    keyring: Keyring = NO_KEYS
    context: Callable[[str], str] = str  # of a file, by its name


PLAIN = PartEncryption()


def write_part(
    folder: Path, rank: int, snapshot: Snapshot, random: RandomState, stall_s: float, encryption: PartEncryption = PLAIN
) -> None:
    """Write the rank's tensors and its note. Raises OSError."""
    path = folder / f"rank-{rank}.safetensors"
    tensors = snapshot.stored_in(path.name)
    files = {path.name: _write_hashed(path, snapshot, encryption)} if tensors else {}
    note, data = _note_path(folder, rank), encode(PartNote(tensors, files, random, stall_s)).encode()
    if encryption.keyring.encrypts:
        data = encrypted_bytes(encryption.keyring, encryption.context(note.name), data)
    write_whole(note, lambda temporary: temporary.write_bytes(data))


def refuse_part(folder: Path, rank: int, why: str, timeout_s: float) -> None:
    """Tell rank 0 that this part will not come, as soon as that can be written: until then it waits for the part, and
    training for it. On a full disk a note without words may still be made."""
    deadline, note = time.monotonic() + timeout_s, _note_path(folder, rank)
    while True:
        try:
            (folder / f"rank-{rank}.safetensors").unlink(missing_ok=True)  # the note needs its room
            write_whole(note, lambda temporary: temporary.write_text(encode(PartRefusal(why))))
            return
        except OSError as error:
            with suppress(OSError):
                note.touch()
                return
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or time.monotonic() > deadline:
                return  # rank 0 finds out by waiting
        time.sleep(MAX_POLL_S)


def wait_for_parts(
    folder: Path, ranks: Iterable[int], timeout_s: float, encryption: PartEncryption = PLAIN
) -> dict[int, PartNote]:
    """Return the ranks' notes once all are there. Raises PartMissing, naming the ranks, after ``timeout_s``, and
    CannotDecrypt."""
    deadline = time.monotonic() + timeout_s
    missing, pause = set(ranks), POLL_S
    notes: dict[int, PartNote] = {}
    while True:
        # By the list of names: network file systems remember for long that a single name was not there.
        names = {path.name for path in folder.iterdir()}
        for rank in sorted(missing):
            if (path := _note_path(folder, rank)).name in names:
                if not (data := path.read_bytes()):
                    raise PartMissing(f"rank {rank}: it has no room to write even why")
                text = decrypted(data, encryption.keyring, encryption.context(path.name)).decode()
                if why := msgspec.json.decode(text, type=prepared(PartRefusal)).why:
                    raise PartMissing(f"rank {rank}: {why}")
                notes[rank] = PartNote.of(text)
        missing -= notes.keys()
        if not missing:
            return notes
        if time.monotonic() > deadline:
            late = ", ".join(map(str, sorted(missing)))
            raise PartMissing(f"the parts of ranks {late} were not there after {timeout_s:g} s")
        time.sleep(pause)
        pause = min(2 * pause, MAX_POLL_S)


def remove_notes(folder: Path, ranks: Iterable[int]) -> None:
    """Remove the notes, once the manifest says what they say."""
    for rank in ranks:
        _note_path(folder, rank).unlink()


def join_notes(notes: Mapping[int, PartNote]) -> tuple[dict[str, StoredTensor], dict[str, StoredFile]]:
    """Return the tensors and files of all parts, as the manifest names them."""
    tensors: dict[str, StoredTensor] = {}
    files: dict[str, StoredFile] = {}
    for rank in sorted(notes):
        files |= notes[rank].files
        for name, tensor in notes[rank].tensors.items():
            others = tensors[name].parts if name in tensors else ()
            tensors[name] = StoredTensor(tensor.dtype, tensor.shape, (*others, *tensor.parts))
    return tensors, files


def _note_path(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def _write_hashed(path: Path, snapshot: Snapshot, encryption: PartEncryption) -> StoredFile:
    """Write it, and return the digest of what lies on the disk then: it can be checked without a key."""
    digest, num_bytes = hashlib.sha256(), 0
    with path.open("wb") as file:
        for piece in _pieces(path.name, snapshot, encryption):
            file.write(piece)
            digest.update(piece)
            num_bytes += len(piece)
    sync(path)
    return StoredFile(num_bytes, digest.hexdigest())


def _pieces(name: str, snapshot: Snapshot, encryption: PartEncryption) -> Iterator[bytes | memoryview]:
    data = snapshot.data
    if encryption.keyring.encrypts:
        yield from encrypted_pieces(encryption.keyring, encryption.context(name), [snapshot.header, data])
        return
    yield snapshot.header
    for start in range(0, len(data), CHUNK_BYTES):
        yield data[start : start + CHUNK_BYTES]
