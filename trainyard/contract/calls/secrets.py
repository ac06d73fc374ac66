"""A node fetches the secrets of an attempt that it has a part of; the answer opens with the node's key alone."""

from trainyard.contract.base import WireStruct


class GivenSecret(WireStruct):
    """Value of one variable of the ranks, or of the file that it names."""

    variable: str
    value: str
    is_file: bool = False


class GivenSecrets(WireStruct):
    secrets: list[GivenSecret] = []


class StorageKey(WireStruct):
    """One version of a project's key for its files."""

    version: int
    key: str  # base64 of 32 bytes


class StorageKeys(WireStruct):
    """Storage keys, as a rank gets them. ``newest`` encrypts what is written; 0: nothing is, and the keys open what
    was."""

    newest: int = 0
    keys: list[StorageKey] = []


def secrets_scope(node_id: str, attempt_id: str) -> str:
    return f"secrets:{node_id}:{attempt_id}"
