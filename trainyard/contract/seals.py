"""Seals: an HMAC-SHA-256 with a node's key, bound to a scope, so that a document counts for one purpose alone.

A document that lives under a key is sealed with that key as its scope, except the attempt report: its scope holds the
fence, so that the report of a stale attempt does not open.
"""

import hashlib
import hmac
import secrets
import time
from typing import Literal, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from trainyard.contract.base import BadDocument, BadMessage, decode, encode

T = TypeVar("T")


class BadSeal(BadMessage):
    """A message that was not sealed by the key it claims, or for another scope, or too long ago."""


def command_scope(task: str, node_id: str) -> str:
    return f"command:{task}:{node_id}"


def control_scope(task: str) -> str:
    """Of control's own tasks, which web and control seal with a key that only they have."""
    return f"control:{task}"


def http_scope(method: str, path: str, at: int, nonce: str = "") -> str:
    """Of a node's REST call; sealed is the hex SHA-256 of the body.

    ``path`` is the one after percent-decoding. ``at`` is the server's time in Unix seconds, as the node reads it from
    its down document. ``nonce`` has 32 hex digits, and the server takes each once.
    """
    return f"http:{nonce}:{method}:{path}:{at}" if nonce else f"http:{method}:{path}:{at}"


def report_scope(node_id: str, run_id: str, fence: int) -> str:
    return f"report:{node_id}:{run_id}:{fence}"


def frames_scope(node_id: str, run_id: str, fence: int) -> str:
    return f"frames:{node_id}:{run_id}:{fence}"


LOCKED = "1"  # the field ``e`` of an entry of the stream whose frames the node's key opens


def node_scope(what: Literal["order", "question", "session"], node_id: str) -> str:
    """Of what travels locked to a node."""
    return f"{what}:{node_id}"


def mac(key: str, scope: str, payload: bytes) -> str:
    """Return the HMAC-SHA-256 of scope and payload, hex. The scope's length is in it, so that no pair collides."""
    digest = hmac.new(bytes.fromhex(key), f"{len(scope)}:{scope}".encode(), hashlib.sha256)
    digest.update(payload)
    return digest.hexdigest()


def check_mac(key: str, scope: str, payload: bytes, claimed: str) -> None:
    """Raise BadSeal unless ``claimed`` is the HMAC of scope and payload."""
    if not hmac.compare_digest(mac(key, scope, payload).encode(), claimed.encode("utf-8", "replace")):
        raise BadSeal(f"the seal for {scope} does not fit")


def seal(key: str, scope: str, document: object) -> str:
    """Return the document as JSON text behind an HMAC over scope and content."""
    body = encode(document)
    return f"{mac(key, scope, body.encode())}.{body}"


def unseal(
    key: str, scope: str, text: str | bytes, kind: type[T], *, max_age_s: float | None = None, now: float | None = None
) -> T:
    """Return the document in ``text``.

    Raises BadSeal where the seal does not fit, or where the field ``at`` is further than ``max_age_s`` from ``now``,
    which is this machine's time unless it is given. Raises BadDocument for content of another shape.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    claimed, _, body = text.partition(".")
    check_mac(key, scope, body.encode(), claimed)
    try:
        document = decode(body, kind)
    except BadDocument as error:
        raise BadDocument(f"the message for {scope}: {error}") from error
    at = document.get("at") if isinstance(document, dict) else getattr(document, "at", None)
    if max_age_s is not None and not _is_within(at, now, max_age_s):
        raise BadSeal(f"the message for {scope} is older than {max_age_s:g} s")
    return document


def _is_within(at: object, now: float | None, max_age_s: float) -> bool:
    return isinstance(at, int | float) and abs((time.time() if now is None else now) - at) <= max_age_s


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
