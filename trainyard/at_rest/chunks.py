"""Encrypted files: AES-256-GCM in chunks, each bound to its place, so that any part of a file can be read by itself.

The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizar: Online Authenticated-Encryption and its Nonce-Reuse
Misuse-Resistance, CRYPTO 2015, section 7): a chunk's nonce is a prefix, the chunk's number and whether it is the last.
Chunks that are left out, exchanged, cut off or appended do not open. The key and the prefix of a file follow by HKDF
from the project's key, a salt of the file's own and its context: what it is and whose. So a file, or a chunk, that was
taken from another file does not open either.

File: magic (8 bytes), version of the project's key (4), bytes of a chunk (4), salt (32), then the chunks, each with a
tag of 16 bytes behind it. An empty file has one chunk, which is empty.
"""

import secrets
import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trainyard.at_rest.keyring import KEY_BYTES, Keyring

MAGIC = b"\x89TYENC1\n"  # as a length of 8 bytes, little endian, more than any safetensors header has
HEADER = struct.Struct("<8sII32s")
CHUNK_BYTES = 1 << 20
MAX_CHUNK_BYTES = 1 << 26
TAG_BYTES = 16
SALT_BYTES = 32
PREFIX_BYTES = 7
NONCE_END = struct.Struct(">I?")


class CannotDecrypt(Exception):
    """An encrypted file that does not open; the text says what is wrong with it."""


def is_encrypted(start: bytes) -> bool:
    """Return whether a file that begins so is encrypted."""
    return start[: len(MAGIC)] == MAGIC


def encrypted_size(num_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Return how large a file of so many bytes is once it is encrypted."""
    return HEADER.size + num_bytes + TAG_BYTES * max(1, -(-num_bytes // chunk_bytes))


def decrypted_size(num_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> int:
    """Return how many bytes an encrypted file of so many holds; 0 for one that was cut off in front of its end."""
    body = num_bytes - HEADER.size
    return max(0, body - TAG_BYTES * max(1, -(-body // (chunk_bytes + TAG_BYTES))))


class _FileCipher:
    """The key and nonces of one file."""

    def __init__(self, keyring: Keyring, version: int, header: bytes, salt: bytes, context: str) -> None:
        key = keyring.keys.get(version)
        if key is None:
            known = f"keys of versions {', '.join(map(str, sorted(keyring.keys)))}" if keyring.keys else "no key"
            raise CannotDecrypt(f"it is encrypted with version {version} of its project's key; given were {known}")
        kdf = HKDF(SHA256(), KEY_BYTES + PREFIX_BYTES, salt=salt, info=b"trainyard file|" + context.encode())
        derived = kdf.derive(key)
        self._cipher, self._prefix = AESGCM(derived[:KEY_BYTES]), derived[KEY_BYTES:]
        self._header = header

    def seal(self, index: int, data: bytes | memoryview, *, is_last: bool) -> bytes:
        return self._cipher.encrypt(self._prefix + NONCE_END.pack(index, is_last), data, self._header)

    def open(self, index: int, data: bytes, *, is_last: bool) -> bytes:
        try:
            return self._cipher.decrypt(self._prefix + NONCE_END.pack(index, is_last), data, self._header)
        except InvalidTag as error:
            what = "the last chunk" if is_last else f"chunk {index}"
            words = f"{what} does not open: it was changed, cut off, or belongs to another place"
            raise CannotDecrypt(words) from error


class Encryptor:
    """Encrypts one file with the newest key: first ``header``, then its chunks in order. ``context`` says what it is.

    With the ``header`` of a file that has ``num_chunks`` already it goes on with that file. The last chunk alone may
    be shorter than CHUNK_BYTES.
    """

    def __init__(self, keyring: Keyring, context: str, *, header: bytes = b"", num_chunks: int = 0) -> None:
        """Raises CannotDecrypt for a header that is none, or of a key that is not there."""
        self.header = header or HEADER.pack(MAGIC, keyring.newest, CHUNK_BYTES, secrets.token_bytes(SALT_BYTES))
        version, _, salt = _parse(self.header)
        self._cipher = _FileCipher(keyring, version, self.header, salt, context)
        self._index = num_chunks

    def chunk(self, data: bytes | memoryview, *, is_last: bool) -> bytes:
        assert len(data) == CHUNK_BYTES or is_last, len(data)
        sealed = self._cipher.seal(self._index, data, is_last=is_last)
        self._index += 1
        return sealed


class DecryptedFile:
    """Reads an encrypted file, which is open at its beginning, from any place. The last chunk is opened at once: a file
    that was cut off or appended to is refused before any of it is used."""

    def __init__(self, file: BinaryIO, keyring: Keyring, context: str) -> None:
        """Raises CannotDecrypt."""
        self._file, begin = file, file.tell()
        header = file.read(HEADER.size)
        self._first = begin + HEADER.size
        version, self._chunk_bytes, salt = _parse(header)
        self._cipher = _FileCipher(keyring, version, header, salt, context)
        body = file.seek(0, 2) - self._first
        self._num_chunks = -(-body // (self._chunk_bytes + TAG_BYTES))
        self.size = body - TAG_BYTES * self._num_chunks
        if self._num_chunks < 1 or self.size < 0:
            raise CannotDecrypt("it ends before its first chunk")
        self._open: tuple[int, bytes] = (-1, b"")
        self._chunk(self._num_chunks - 1)

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """Return so many bytes from ``start`` on, fewer where the file ends. Raises CannotDecrypt."""
        return b"".join(self.pieces(start, length))

    def pieces(self, start: int = 0, length: int | None = None) -> Iterator[bytes | memoryview]:
        """Yield what ``read`` returns, a chunk at a time."""
        end = self.size if length is None else min(self.size, start + length)
        while start < end:
            index, within = divmod(start, self._chunk_bytes)
            data = memoryview(self._chunk(index))[within : within + end - start]
            yield data
            start += len(data)

    def _chunk(self, index: int) -> bytes:
        if self._open[0] != index:
            size = self._chunk_bytes + TAG_BYTES
            self._file.seek(self._first + index * size)
            self._open = index, self._cipher.open(index, self._file.read(size), is_last=index == self._num_chunks - 1)
        return self._open[1]


def _parse(header: bytes) -> tuple[int, int, bytes]:
    if len(header) < HEADER.size or not is_encrypted(header):
        raise CannotDecrypt("it does not begin as an encrypted file does")
    _, version, chunk_bytes, salt = HEADER.unpack(header)
    if not 0 < chunk_bytes <= MAX_CHUNK_BYTES:
        raise CannotDecrypt(f"its chunks would have {chunk_bytes} bytes")
    return version, chunk_bytes, salt


def encrypted_pieces(keyring: Keyring, context: str, parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """Yield what the file consists of, once the parts, one behind the other, are encrypted."""
    encryptor = Encryptor(keyring, context)
    yield encryptor.header
    waiting: memoryview | bytes = b""
    for chunk in _cut(parts):
        if len(waiting):
            yield encryptor.chunk(waiting, is_last=False)
        waiting = chunk
    yield encryptor.chunk(waiting, is_last=True)


def encrypted_bytes(keyring: Keyring, context: str, data: bytes) -> bytes:
    return b"".join(encrypted_pieces(keyring, context, [data]))


def _cut(parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield chunks of CHUNK_BYTES and a last one that may be shorter; only those over a border of parts are copied."""
    rest = b""
    for part in parts:
        view = memoryview(part)
        if rest:
            taken = view[: CHUNK_BYTES - len(rest)]
            rest, view = rest + bytes(taken), view[len(taken) :]
            if len(rest) < CHUNK_BYTES:
                continue
            yield rest
            rest = b""
        whole = len(view) - len(view) % CHUNK_BYTES
        for start in range(0, whole, CHUNK_BYTES):
            yield view[start : start + CHUNK_BYTES]
        rest = bytes(view[whole:])
    if rest:
        yield rest
