"""Refusals of each node's messages in the last day, counted in Valkey, for its page and ``/health``: a node that is
broken or hostile is cut off without an end of its own that anybody would see."""

import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from redis.exceptions import RedisError

from runs.serving.transport import redis
from trainyard.contract.seals import PREFIX

COUNTS_KEY, TIMES_KEY = f"{PREFIX}:control:refused", f"{PREFIX}:control:refused-at"  # fields: a node's id and a kind
KEPT_S = 24 * 3600.0
RECENT_S = 600.0  # so long /health says it

CONNECTIONS, DOCUMENTS, ENTRIES, UNPROVEN = "connections", "documents", "entries", "unproven"
SENTENCES = {
    CONNECTIONS: "Connections to Valkey ended: more than this node can need",
    DOCUMENTS: "Documents about its state not read: they are none, or have another's seal",
    ENTRIES: "Entries of records not stored: they could not be read",
    UNPROVEN: "Entries in this node's name refused: they have another's seal, or are of a run that it does not have",
}


def note(node_id: str, kind: str, count: int = 1) -> None:
    """Count what was refused. Nothing of it matters enough to fail where Valkey is away."""
    field, now = f"{node_id} {kind}", time.time()
    with suppress(RedisError, OSError):
        client = redis()
        if now - float(client.zscore(TIMES_KEY, field) or 0.0) > KEPT_S:
            client.hdel(COUNTS_KEY, field)
        client.hincrby(COUNTS_KEY, field, count)
        client.zadd(TIMES_KEY, {field: now})


def sentences_of(node_id: str) -> list[str]:
    """Return what was refused of the node in the last day, with count and time; empty where Valkey is away."""
    found = []
    fields = [f"{node_id} {kind}" for kind in SENTENCES]
    with suppress(RedisError, OSError):
        times, counts = redis().zmscore(TIMES_KEY, fields), redis().hmget(COUNTS_KEY, fields)
        for words, at, count in zip(SENTENCES.values(), times, counts, strict=True):
            if at is not None and time.time() - at <= KEPT_S:
                last = datetime.fromtimestamp(at, UTC)
                found.append(f"{words}: {int(count or 0):,}. Last at {last:%H:%M:%S} UTC.")
    return found


def recently(client: Any) -> str:
    """Return what /health says of the last minutes, without names: it needs no login. Raises RedisError."""
    found = client.zrangebyscore(TIMES_KEY, time.time() - RECENT_S, "+inf", withscores=True)
    if not found:
        return ""
    nodes = {bytes(field).split()[0] for field, _ in found}
    last = datetime.fromtimestamp(max(at for _, at in found), UTC)
    which = "a node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    when = f"last at {last:%H:%M:%S} UTC"
    return f"Connections or entries of {which} were refused, {when}: the node's page says what and how many."
