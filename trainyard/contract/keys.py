"""Names in Valkey: keys of documents and streams, queues and tasks of Celery."""

import secrets
from urllib.parse import parse_qs, quote, urlsplit

PREFIX = "trainyard"
EPOCH_KEY = f"{PREFIX}:epoch"  # another value means that Valkey lost its data: supervisors send again

# A supervisor publishes its run's id here when its report says something new. It is a hint: what follows is a look at
# the sealed report, so a forged or lost one costs nothing.
CHANGED_CHANNEL = f"{PREFIX}:changed"

CONTROL_QUEUE = "control"
RECONCILE_RUN = "runs.tasks.reconcile_run"

# Commands to a node: `desired.Nudge`, `inspections.Inspect` and `sessions.Attach`.
NUDGE = "workers.tasks.nudge"
INSPECT = "workers.tasks.inspect"
ATTACH = "workers.tasks.attach"


def node_queue(name: str) -> str:
    """Return the Celery queue of the node with this name."""
    return f"node.{name}"


def stream_key(shard: int) -> str:
    """Return the key of the shard's stream.

    Its entries have the fields ``n`` node id, ``r`` run id, ``a`` attempt id, ``f`` fence, ``d`` frames as
    ``trainyard.spooling.frames`` writes them, one behind the other, and ``m`` the HMAC over ``d``. Health samples
    travel the same way, with ``r`` and ``a`` empty, ``f`` 0, and in ``d`` one ``HealthSample``. A supervisor waits
    while the stream has STREAM_LIMIT_ENTRIES or takes STREAM_LIMIT_BYTES; nothing is ever trimmed.
    """
    return f"{PREFIX}:stream:{shard}"


def down_key(node_id: str) -> str:
    """Return the key, and the scope of the seal, of the node's ``Desired``."""
    return f"{PREFIX}:down:{node_id}"


def up_key(node_id: str) -> str:
    """Return the key, and the scope of the seal, of the node's ``NodeStatus``."""
    return f"{PREFIX}:up:{node_id}"


def report_key(node_id: str, attempt_id: str) -> str:
    """Return the key of an ``AttemptReport``; its seal has the scope ``seals.report_scope``."""
    return f"{PREFIX}:report:{node_id}:{attempt_id}"


def session_key(node_id: str, session: str, direction: str) -> str:
    """Return the key of a session's frames: ``up`` is a stream that the node writes, ``down`` a list that it reads."""
    return f"{PREFIX}:session:{node_id}:{session}:{direction}"


def new_key() -> str:
    """Return a fresh node key, 64 hex digits."""
    return secrets.token_hex(32)


def broker_url(redis_url: str) -> str:
    """Return kombu's spelling of a Redis URL: a Unix socket is ``redis+socket://``, its database a virtual host.
    Kombu looks at no certificate unless it is asked to."""
    parts = urlsplit(redis_url)
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in parse_qs(parts.query):
        query = f"{parts.query}&ssl_cert_reqs=required" if parts.query else "ssl_cert_reqs=required"
        return parts._replace(query=query).geturl()
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    login = f"{parts.netloc}" if "@" in parts.netloc else ""
    return f"redis+socket://{login}{quote(parts.path)}?virtual_host={database}"
