"""Sources of key-encryption keys: a file in the home, an environment variable, or a key management service."""

import base64
import secrets
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trainyard.spooling.plain_files import write_first, write_private

KEY_BYTES = 32
NONCE_BYTES = 12


class KeyProblem(Exception):
    """A key cannot be had or does not open something. The message is for people and holds no secret."""


def hidden(key: bytes, data: bytes, bound: bytes) -> str:
    """Return the data under the key (AES-GCM), bound to what must be given again, as base64."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, data, bound)).decode()


def uncovered(key: bytes, text: str, bound: bytes) -> bytes:
    """Raises InvalidTag and ValueError."""
    data = base64.b64decode(text, validate=True)
    return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)


class KeyStore(Protocol):
    """Keys that wrap data keys. Older keys still unwrap, so that the newest can change while everything runs."""

    def wrap(self, data_key: bytes, place: str) -> tuple[str, str]:
        """Return the id of the newest key and the wrapped data key, bound to ``place``. Raises KeyProblem."""

    def unwrap(self, key_id: str, wrapped: str, place: str) -> bytes:
        """Return the data key. Raises KeyProblem."""

    def newest(self) -> str:
        """Return the id of the key that wraps now; empty where only the service knows. Raises KeyProblem."""

    def rotate(self) -> str:
        """Make a new key, which wraps from now on, and return a sentence about it. Raises KeyProblem."""

    def forget_others(self) -> None:
        """Let go of older keys: nothing is wrapped by them any more."""


class LocalKeys:
    """Keys as text, one a line or separated by commas, the newest first: ``id:base64`` of 32 bytes."""

    def _read(self) -> dict[str, bytes]:
        raise NotImplementedError

    def newest(self) -> str:
        return next(iter(self._read()))

    def wrap(self, data_key: bytes, place: str) -> tuple[str, str]:
        key_id, key = next(iter(self._read().items()))
        return key_id, hidden(key, data_key, _bound(key_id, place))

    def unwrap(self, key_id: str, wrapped: str, place: str) -> bytes:
        key = self._read().get(key_id)
        if key is None:
            words = f"The key {key_id!r}, under which {place} was stored, is not among the keys of this server."
            raise KeyProblem(words)
        try:
            return uncovered(key, wrapped, _bound(key_id, place))
        except (InvalidTag, ValueError) as error:
            raise KeyProblem(f"The key {key_id!r} does not open {place}.") from error


class FileKeys(LocalKeys):
    """A file that only its owner reads, made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _read(self) -> dict[str, bytes]:
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            write_first(self._path, f"{_new_key()}\n")
            text = self._path.read_text()
        except OSError as error:
            raise KeyProblem(f"The keys of secrets in {self._path} cannot be read: {error.strerror}.") from error
        if self._path.stat().st_mode & 0o077:
            raise KeyProblem(f"{self._path} is open to others: chmod 600 it.")
        return parse_keys(text, str(self._path))

    def unwrap(self, key_id: str, wrapped: str, place: str) -> bytes:
        if not self._path.exists():  # a new one would open nothing that is stored
            raise KeyProblem(f"{self._path} is not there: put the copy of it back that was kept apart.")
        return super().unwrap(key_id, wrapped, place)

    def rotate(self) -> str:
        self._write([_new_key(), *(_line(key_id, key) for key_id, key in self._read().items())])
        return f"A new key wraps secrets now; it was added to {self._path}."

    def forget_others(self) -> None:
        newest, key = next(iter(self._read().items()))
        self._write([_line(newest, key)])

    def _write(self, lines: list[str]) -> None:
        write_private(self._path, "".join(f"{line}\n" for line in lines))


class EnvironmentKeys(LocalKeys):
    """Keys of TRAINYARD_SECRETS_KEY. Who starts the server changes them."""

    def __init__(self, text: str) -> None:
        self._keys = parse_keys(text, "TRAINYARD_SECRETS_KEY")

    def _read(self) -> dict[str, bytes]:
        return self._keys

    def rotate(self) -> str:
        if len(self._keys) < 2:
            words = "as NEW,OLD, restart the server and rotate then; afterwards the old one may go."
            raise KeyProblem(f"TRAINYARD_SECRETS_KEY holds one key. Put a new one before it, {words}")
        return "Secrets are wrapped by the first key of TRAINYARD_SECRETS_KEY; the others may go."

    def forget_others(self) -> None:
        """Do nothing: the variable is somebody else's."""


def parse_keys(text: str, source: str) -> dict[str, bytes]:
    """Return keys by their id, the newest first. Raises KeyProblem, which quotes none."""
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.replace(",", "\n").split(), 1):
        key_id, _, encoded = line.rpartition(":")
        try:
            key = base64.b64decode(encoded, validate=True)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise KeyProblem(f"Key {number} of {source} is not id:base64 of {KEY_BYTES} bytes.")
        found[key_id or _fingerprint(key)] = key
    if not found:
        raise KeyProblem(f"{source} holds no key.")
    return found


def _fingerprint(key: bytes) -> str:
    """Return a name for a key that has none: of what it makes of nothing, so that it says nothing of the key."""
    return AESGCM(key).encrypt(bytes(NONCE_BYTES), b"", b"name of this key").hex()[:12]


def _bound(key_id: str, place: str) -> bytes:
    return f"data key|{key_id}|{place}".encode()


def _new_key() -> str:
    return _line(secrets.token_hex(6), secrets.token_bytes(KEY_BYTES))


def _line(key_id: str, key: bytes) -> str:
    return f"{key_id}:{base64.b64encode(key).decode()}"
