"""Secrets among a cluster's settings: kept locked with a key that only the server has, and shown to nobody."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.utils.crypto import salted_hmac

from runs.models import Cluster
from trainyard.contract.base import BadMessage
from trainyard.contract.locks import lock, unlock
from trainyard.contract.orders import Locked

MAX_CHARACTERS = 100_000


class SecretUnreadable(Exception):
    """The message is a sentence that says what to do."""


def keep_secret(cluster: Cluster, name: str, text: str) -> None:
    """Put the secret into the cluster's row, which the caller saves; an empty text removes it."""
    kept = {other: value for other, value in cluster.secrets.items() if other != name}
    if text:
        kept[name] = lock(_key(), _scope(cluster, name), text).locked
    cluster.secrets = kept


def secret_of(cluster: Cluster, name: str) -> str:
    """Return the secret, empty where none was given. Raises SecretUnreadable."""
    locked = cluster.secrets.get(name)
    if not locked:
        return ""
    try:
        return unlock(_key(), _scope(cluster, name), Locked(locked=locked), str)
    except BadMessage as error:
        raise SecretUnreadable(
            f"The {name} of cluster {cluster.name} was stored under another SECRET_KEY of the server; enter it again."
        ) from error


@cache
def _key() -> str:
    return salted_hmac("runs.engines.secrets", "clusters", secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _scope(cluster: Cluster, name: str) -> str:
    return f"cluster-secret/{cluster.pk}/{name}"
