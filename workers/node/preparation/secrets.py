"""Fetches the secrets that an order names. They are not in the order, which the node keeps on its disk."""

from __future__ import annotations

from typing import Protocol

import httpx

from trainyard.contract.orders import Locked, Order
from trainyard.spec.sections.environment import secret_references
from workers.node.preparation.bundles import CannotRunHere

REFUSED = 409  # the server has no such secret


class SecretSource(Protocol):
    def secrets(self, attempt: str) -> Locked: ...


def fetch_secrets(order: Order, source: SecretSource) -> Locked | None:
    """Return the secrets, locked for this node; None where the order has none. Raises Refusal, and what ``source``
    raises where the server does not answer."""
    has_notebook = bool(order.spec.get("task", {}).get("notebook"))  # it has a token
    if not (secret_references(order.spec) or has_notebook or order.has_storage_keys):
        return None
    try:
        return source.secrets(order.attempt)
    except httpx.HTTPStatusError as error:
        if error.response.status_code == REFUSED:
            raise CannotRunHere("secret_missing", _sentence(error.response)) from error
        raise


def _sentence(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        return "The server does not have a secret that the run names."
