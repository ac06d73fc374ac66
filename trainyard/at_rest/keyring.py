"""The storage keys of a project: by version, as ranks and the server hold them in memory."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainyard.contract.base import BadDocument, decode, encode
from trainyard.contract.calls import StorageKey, StorageKeys

VARIABLE = "TRAINYARD_STORAGE_KEYS"  # of a rank: the path of a file in memory
KEY_BYTES = 32


class NoKeys(Exception):
    """The keys that were given cannot be read."""


@dataclass(frozen=True, slots=True)
class Keyring:
    newest: int = 0
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def encrypts(self) -> bool:
        return self.newest > 0

    def to_text(self) -> str:
        keys = [StorageKey(version, base64.b64encode(key).decode()) for version, key in sorted(self.keys.items())]
        return encode(StorageKeys(self.newest, keys))


NO_KEYS = Keyring()


def keyring_of(text: str) -> Keyring:
    """Return the keys in a document. Raises NoKeys, which quotes none."""
    try:
        found = decode(text, StorageKeys, is_secret=True)
        keys = {one.version: base64.b64decode(one.key, validate=True) for one in found.keys}
    except (BadDocument, ValueError) as error:
        raise NoKeys("the storage keys are no document of keys") from error
    if any(len(key) != KEY_BYTES for key in keys.values()) or (found.newest and found.newest not in keys):
        raise NoKeys(f"the storage keys are not {KEY_BYTES} bytes each, or the newest is missing")
    return Keyring(found.newest, keys)


def read_keyring(environment: Mapping[str, str]) -> Keyring:
    """Return the keys that a rank was given, none where it was given none. Raises NoKeys."""
    path = environment.get(VARIABLE)
    if not path:
        return NO_KEYS
    try:
        return keyring_of(Path(path).read_text())
    except OSError as error:
        raise NoKeys(f"the storage keys cannot be read: {error.strerror}") from error
