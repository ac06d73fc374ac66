"""Secrets among a cluster's settings: kept encrypted with the keys of all secrets, and shown to nobody."""

from functools import lru_cache

from runs.engines.machine_system import SystemAway
from runs.models import Cluster
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.sealed import cluster_place, open_text, seal_text

MAX_CHARACTERS = 100_000


class SecretUnreadable(SystemAway):
    """The system cannot be asked without it; the message is a sentence that says what to do."""


def keep_secret(cluster: Cluster, name: str, text: str) -> None:
    """Put the secret into the cluster's row, which the caller saves; an empty text removes it. Raises KeyProblem."""
    kept = {other: value for other, value in cluster.secrets.items() if other != name}
    if text:
        kept[name] = seal_text(cluster_place(cluster.pk, name), text)
    cluster.secrets = kept


def secret_of(cluster: Cluster, name: str) -> str:
    """Return the secret, empty where none was given. Raises SecretUnreadable."""
    sealed = cluster.secrets.get(name)
    if not sealed:
        return ""
    try:
        return _opened(cluster_place(cluster.pk, name), sealed)
    except KeyProblem as error:
        raise SecretUnreadable(f"The {name} of cluster {cluster.name} does not open. {error}") from error


@lru_cache(maxsize=64)  # control asks every second, and a key management service would be asked each time
def _opened(place: str, sealed: str) -> str:
    return open_text(place, sealed)
