"""A node fetches the secrets of an attempt that it has a part of; the answer opens with the node's key alone."""

from __future__ import annotations

from trainyard.contract.base import WireStruct


class GivenSecret(WireStruct):
    """What one variable of the ranks is, or holds the path of."""

    variable: str
    value: str
    is_file: bool = False


class GivenSecrets(WireStruct):
    secrets: list[GivenSecret] = []


def secrets_scope(node_id: str, attempt_id: str) -> str:
    return f"secrets:{node_id}:{attempt_id}"
