"""Seals: an HMAC-SHA-256 with a node's key, bound to a scope, so that a document counts for one purpose alone.

A document that lives under a key is sealed with that key as its scope, except the attempt report: its scope holds the
fence, so that the report of a stale attempt does not open.
"""

import hashlib
import hmac
import time
from typing import TypeVar

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


def order_scope(node_id: str) -> str:
    return f"order:{node_id}"


def question_scope(node_id: str) -> str:
    return f"question:{node_id}"


def session_scope(node_id: str) -> str:
    return f"session:{node_id}"


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
