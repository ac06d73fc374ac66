"""Log lines and media that are encrypted where they lie: pieces of up to a megabyte, in rows of the metrics database.

A piece is AES-256-GCM with a random nonce, under a key of its run that follows by HKDF from the project's storage key,
and bound to its place. Piece: magic (8 bytes), version of the project's key (4), nonce (12), ciphertext with its tag.
Nothing else that is stored begins so: lines, texts, tables and histograms are zstandard's frames, and files of media
begin as their formats do.
"""

import secrets
import struct
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.storage_keys import keyring_of_run
from trainyard.at_rest.keyring import KEY_BYTES, Keyring

MAGIC = b"\x89TYREC1\n"
HEAD = struct.Struct("<8sI12s")
NONCE_BYTES = 12


class Unreadable(Exception):
    """A piece that does not open; the text is a sentence for people."""


def is_hidden(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC


def hide(keyring: Keyring, run_id: str, place: str, data: bytes) -> bytes:
    """Return the data encrypted with the newest key; as it is where the keyring does not encrypt."""
    if not keyring.encrypts:
        return data
    head = HEAD.pack(MAGIC, keyring.newest, nonce := secrets.token_bytes(NONCE_BYTES))
    cipher = _cipher(keyring.keys[keyring.newest], run_id)
    return head + cipher.encrypt(nonce, data, head + place.encode())


def reveal(run_id: str, place: str, data: bytes) -> bytes:
    """Return what was hidden at this place of the run; what is not hidden as it is. Raises Unreadable."""
    if not is_hidden(data):
        return data
    if len(data) < HEAD.size:
        raise Unreadable("What is stored here was cut off.")
    _, version, nonce = HEAD.unpack_from(data)
    try:
        key = keyring_of_run(run_id).keys.get(version)
    except KeyProblem as error:
        raise Unreadable(f"This is encrypted, and its key cannot be had now: {error}") from error
    if key is None:
        raise Unreadable(f"This cannot be read any more: version {version} of its project's storage key was destroyed.")
    try:
        return _cipher(key, run_id).decrypt(nonce, memoryview(data)[HEAD.size :], data[: HEAD.size] + place.encode())
    except InvalidTag as error:
        raise Unreadable("What is stored here does not open: it was changed, or belongs to another place.") from error


@lru_cache(512)
def _cipher(key: bytes, run_id: str) -> AESGCM:
    kdf = HKDF(SHA256(), KEY_BYTES, salt=None, info=b"trainyard records|" + run_id.encode())
    return AESGCM(kdf.derive(key))
