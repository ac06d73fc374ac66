"""Output files that are encrypted where they lie, with the storage key of their run's project.

Such a file has a name of its own, ``.encrypted-NAME``: what is in it never decides whether it is one, since scripts may
write what they like. It is bound to its run, not to its path: files are linked and moved within a run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trainyard.at_rest.chunks import CHUNK_BYTES, HEADER, TAG_BYTES, DecryptedFile, Encryptor, encrypted_size
from trainyard.at_rest.keyring import Keyring

PREFIX = ".encrypted-"


class EncryptedOutput(NamedTuple):
    path: Path
    run_id: str
    keyring: Keyring

    def size(self) -> int:
        """Return how many bytes it holds. Raises CannotDecrypt where it does not open."""
        with self.path.open("rb") as file:
            return self._opened(file).size

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield what it holds from a byte on. Raises CannotDecrypt."""
        with self.path.open("rb") as file:
            yield from map(bytes, self._opened(file).pieces(start))

    def _opened(self, file: BinaryIO) -> DecryptedFile:
        return DecryptedFile(file, self.keyring, context_of(self.run_id))


def context_of(run_id: str) -> str:
    return f"output|{run_id}"


def is_encrypted(path: Path) -> bool:
    return path.name.startswith(PREFIX)


def plain_name(name: str) -> str:
    return name.removeprefix(PREFIX)


def place_for(path: Path, *, encrypts: bool) -> Path:
    """Return where the file of this path lies if it is encrypted, or is not."""
    return path.with_name(f"{PREFIX if encrypts else ''}{plain_name(path.name)}")


def bytes_here(stored: int, size: int) -> int:
    """Return how many bytes of a file of ``size`` there are in the ``stored`` bytes of its encryption; 0 where a chunk
    was cut off. Then it is begun anew: a nonce is not used for a chunk a second time."""
    if stored == encrypted_size(size):
        return size
    num_chunks, rest = divmod(stored - HEADER.size, CHUNK_BYTES + TAG_BYTES)
    return num_chunks * CHUNK_BYTES if num_chunks > 0 and not rest else 0


def append_part(file: BinaryIO, data: bytes, *, run_id: str, size: int, keyring: Keyring) -> None:
    """Append the next part to what ``file``, open for reading and appending, has of a file of ``size`` bytes.

    Raises ValueError for a part that ends within a chunk and is not the last, CannotDecrypt without the key that the
    file was begun with.
    """
    here = bytes_here(file.seek(0, 2), size)
    if here + len(data) < size and len(data) % CHUNK_BYTES:
        raise ValueError(f"a part that is not the last has a whole number of {CHUNK_BYTES:,} bytes")
    file.seek(0)
    header = file.read(HEADER.size) if here else b""
    encryptor = Encryptor(keyring, context_of(run_id), header=header, num_chunks=here // CHUNK_BYTES)
    pieces = [] if here else [encryptor.header]
    for start in range(0, max(1, len(data)), CHUNK_BYTES):
        chunk = data[start : start + CHUNK_BYTES]
        pieces.append(encryptor.chunk(chunk, is_last=here + start + len(chunk) == size))
    if not here:
        file.truncate(0)
    file.write(b"".join(pieces))
