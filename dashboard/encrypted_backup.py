"""Backups that are encrypted before they reach a disk: with a passphrase, or to a public key whose other half is away.

File: magic (8 bytes), how its key is made (1), 32 bytes for that, then an encrypted file as ``trainyard.at_rest`` has
them, bound to these. The key follows from a passphrase by scrypt (RFC 7914), where the bytes are its salt; or, as in
ECIES, by HKDF from an X25519 exchange (RFC 7748), where they are the public half of a key that was made for this file.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from dashboard.up.checks import CannotStart
from trainyard.at_rest.chunks import CHUNK_BYTES, DecryptedFile, Encryptor
from trainyard.at_rest.keyring import KEY_BYTES, Keyring

MAGIC = b"\x89TYBAK1\n"
ENVELOPE = struct.Struct("<8sB32s")
PASSPHRASE, PUBLIC_KEY = 1, 2
MIN_PASSPHRASE = 12  # bytes
MAKE_KEY = "openssl genpkey -algorithm X25519 -out backup.key; openssl pkey -in backup.key -pubout -out backup.pub"


class Opener(NamedTuple):
    """Files that a backup is encrypted to or opened with: of a passphrase, or of half a key. At most one is named."""

    passphrase: Path | None = None
    key: Path | None = None


class EncryptedWriter:
    """Writes what it is given encrypted into ``file``; ``finish`` writes the end, without which it does not open."""

    def __init__(self, file: BinaryIO, opener: Opener) -> None:
        kind, of_key, key = _new_key(opener)
        envelope = ENVELOPE.pack(MAGIC, kind, of_key)
        self._encryptor = Encryptor(Keyring(1, {1: key}), _context(envelope))
        self._file, self._waiting = file, bytearray()
        file.write(envelope + self._encryptor.header)

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > CHUNK_BYTES:
            self._file.write(self._encryptor.chunk(bytes(self._waiting[:CHUNK_BYTES]), is_last=False))
            del self._waiting[:CHUNK_BYTES]
        return len(data)

    def finish(self) -> None:
        self._file.write(self._encryptor.chunk(bytes(self._waiting), is_last=True))


class DecryptedReader:
    """Reads a backup that is open, from its beginning."""

    def __init__(self, file: BinaryIO, opener: Opener) -> None:
        """Raises CannotStart without what opens it, and CannotDecrypt."""
        envelope = file.read(ENVELOPE.size)
        if len(envelope) < ENVELOPE.size:
            raise CannotStart("the backup was cut off.")
        _, kind, of_key = ENVELOPE.unpack(envelope)
        self._opened = DecryptedFile(file, Keyring(1, {1: _key_of(kind, of_key, opener)}), _context(envelope))
        self._at = 0

    def read(self, size: int) -> bytes:
        data = self._opened.read(self._at, size)
        self._at += len(data)
        return data


def is_encrypted(file: BinaryIO) -> bool:
    start = file.read(len(MAGIC))
    file.seek(0)
    return start == MAGIC


def _new_key(opener: Opener) -> tuple[int, bytes, bytes]:
    """Return how the key is made, the bytes for that, and the key."""
    if opener.passphrase is not None:
        salt = os.urandom(32)
        return PASSPHRASE, salt, _from_passphrase(opener.passphrase, salt)
    assert opener.key is not None
    try:
        theirs = load_pem_public_key(opener.key.read_bytes())
    except ValueError:
        theirs = None
    if not isinstance(theirs, X25519PublicKey):
        raise CannotStart(f"{opener.key} is no public key of X25519 in PEM. Make one with: {MAKE_KEY}")
    ours = X25519PrivateKey.generate()
    public = ours.public_key().public_bytes_raw()
    return PUBLIC_KEY, public, _from_exchange(ours, theirs, public, theirs.public_bytes_raw())


def _key_of(kind: int, of_key: bytes, opener: Opener) -> bytes:
    if kind == PASSPHRASE:
        if opener.passphrase is None:
            raise CannotStart("the backup is encrypted with a passphrase: name its file with --passphrase-file.")
        return _from_passphrase(opener.passphrase, of_key)
    if kind != PUBLIC_KEY:
        raise CannotStart("the backup is of a newer version.")
    if opener.key is None:
        raise CannotStart("the backup is encrypted to a public key: name the private key's file with --key.")
    try:
        ours = load_pem_private_key(opener.key.read_bytes(), None)
    except (ValueError, TypeError):
        ours = None
    if not isinstance(ours, X25519PrivateKey):
        raise CannotStart(f"{opener.key} is no private key of X25519 in PEM without a password.")
    return _from_exchange(ours, X25519PublicKey.from_public_bytes(of_key), of_key, ours.public_key().public_bytes_raw())


def _from_passphrase(path: Path, salt: bytes) -> bytes:
    passphrase = path.read_bytes().rstrip(b"\r\n")
    if len(passphrase) < MIN_PASSPHRASE:
        raise CannotStart(f"a passphrase has at least {MIN_PASSPHRASE} bytes; {path} has {len(passphrase)}.")
    return Scrypt(salt=salt, length=KEY_BYTES, n=2**17, r=8, p=1).derive(passphrase)


def _from_exchange(ours: X25519PrivateKey, theirs: X25519PublicKey, of_file: bytes, of_person: bytes) -> bytes:
    kdf = HKDF(SHA256(), KEY_BYTES, salt=of_file + of_person, info=b"trainyard backup")
    return kdf.derive(ours.exchange(theirs))


def _context(envelope: bytes) -> str:
    return f"backup|{envelope.hex()}"
