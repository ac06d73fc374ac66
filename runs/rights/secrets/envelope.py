"""A value under a data key of its own, and that key under a key-encryption key. Both are bound to their place."""

from __future__ import annotations

import base64
import secrets
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from runs.rights.secrets.key_stores import KeyProblem, KeyStore

NONCE_BYTES = 12


class Envelope(NamedTuple):
    key_id: str
    wrapped_key: str
    ciphertext: str


def close_envelope(store: KeyStore, place: str, value: str) -> Envelope:
    """Encrypt the value for its ``place`` (owner, name and version). Raises KeyProblem."""
    data_key, nonce = AESGCM.generate_key(256), secrets.token_bytes(NONCE_BYTES)
    hidden = AESGCM(data_key).encrypt(nonce, value.encode(), place.encode())
    key_id, wrapped = store.wrap(data_key, place)
    return Envelope(key_id, wrapped, base64.b64encode(nonce + hidden).decode())


def open_envelope(store: KeyStore, place: str, envelope: Envelope) -> str:
    """Return the value. Raises KeyProblem where it does not open, or belongs to another place."""
    data_key = store.unwrap(envelope.key_id, envelope.wrapped_key, place)
    try:
        data = base64.b64decode(envelope.ciphertext, validate=True)
        return AESGCM(data_key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], place.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise KeyProblem(f"The secret {place} does not open: it was changed, or belongs to another place.") from error


def wrap_again(store: KeyStore, place: str, envelope: Envelope) -> Envelope:
    """Return the envelope with its data key under the newest key. The value is not decrypted."""
    data_key = store.unwrap(envelope.key_id, envelope.wrapped_key, place)
    key_id, wrapped = store.wrap(data_key, place)
    return Envelope(key_id, wrapped, envelope.ciphertext)
