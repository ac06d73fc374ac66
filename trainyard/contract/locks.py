"""Locks: documents that only the node's key opens. A seal alone shows its content to whoever can read Valkey.

Apart from ``seals`` since it needs a library that the SDK and the terminal do not bring.
"""

import base64
import secrets
from functools import lru_cache
from typing import TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from trainyard.contract.base import decode, encode
from trainyard.contract.orders import Locked
from trainyard.contract.seals import BadSeal

T = TypeVar("T")


def lock(key: str, scope: str, document: object) -> Locked:
    """Return ``document`` so that only who has the node's key can read it: AES-256-GCM, bound to the scope."""
    return Locked(locked=base64.b64encode(lock_bytes(key, scope, encode(document).encode())).decode())


def unlock(key: str, scope: str, document: Locked, kind: type[T]) -> T:
    """Return what was locked. Raises BadSeal where it does not open, BadDocument for content of another shape:
    it names the field and no value, since a run's environment is in there."""
    try:
        data = base64.b64decode(document.locked, validate=True)
    except ValueError as error:
        raise BadSeal(f"what was locked for {scope} does not open") from error
    return decode(unlock_bytes(key, scope, data), kind, is_secret=True)


def lock_bytes(key: str, scope: str, data: bytes) -> bytes:
    """Return the data so that only who has the node's key can read them: a nonce, and AES-256-GCM."""
    nonce = secrets.token_bytes(12)
    return nonce + AESGCM(_lock_key(key)).encrypt(nonce, data, scope.encode())


def unlock_bytes(key: str, scope: str, data: bytes) -> bytes:
    """Raises BadSeal where they do not open."""
    try:
        return AESGCM(_lock_key(key)).decrypt(data[:12], memoryview(data)[12:], scope.encode())
    except (InvalidTag, ValueError) as error:
        raise BadSeal(f"what was locked for {scope} does not open") from error


@lru_cache(maxsize=4096)
def _lock_key(key: str) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=b"trainyard orders").derive(bytes.fromhex(key))
