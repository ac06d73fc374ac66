"""Old names of trainyard.contract, for modules that still handle its documents as dicts. It goes when none is left."""

from __future__ import annotations

from trainyard.contract import locks, seals
from trainyard.contract.base import BadDocument, JsonObject, convert
from trainyard.contract.keys import (
    CHANGED_CHANNEL,
    CONTROL_QUEUE,
    EPOCH_KEY,
    GO,
    INSPECT,
    NUDGE,
    PREFIX,
    PREPARE,
    RECONCILE_RUN,
    broker_url,
    down_key,
    new_key,
    node_queue,
    report_key,
    stream_key,
    up_key,
)
from trainyard.contract.limits import (
    CONTACT_LOST_S,
    DEFAULT_LEASE_S,
    MAX_FACTS_BYTES,
    MAX_OFFERED,
    OUTPUT_NAMED,
    STREAM_LIMIT_BYTES,
    STREAM_LIMIT_ENTRIES,
    UNSENT_KEPT_S,
    UPLOAD_PART_BYTES,
)
from trainyard.contract.orders import Locked
from trainyard.contract.seals import (
    BadSeal,
    check_mac,
    command_scope,
    control_scope,
    frames_scope,
    http_scope,
    mac,
    order_scope,
    question_scope,
    report_scope,
    seal,
)

__all__ = [
    "CHANGED_CHANNEL",
    "CONTACT_LOST_S",
    "CONTROL_QUEUE",
    "DEFAULT_LEASE_S",
    "EPOCH_KEY",
    "GO",
    "INSPECT",
    "MAX_FACTS_BYTES",
    "MAX_OFFERED",
    "NUDGE",
    "OUTPUT_NAMED",
    "PREFIX",
    "PREPARE",
    "RECONCILE_RUN",
    "STREAM_LIMIT_BYTES",
    "STREAM_LIMIT_ENTRIES",
    "UNSENT_KEPT_S",
    "UPLOAD_PART_BYTES",
    "BadSeal",
    "Document",
    "broker_url",
    "check_mac",
    "command_scope",
    "control_scope",
    "down_key",
    "frames_scope",
    "http_scope",
    "lock",
    "mac",
    "new_key",
    "node_queue",
    "order_scope",
    "question_scope",
    "report_key",
    "report_scope",
    "seal",
    "stream_key",
    "unlock",
    "unseal",
    "up_key",
]

Document = JsonObject


def lock(key: str, scope: str, document: Document) -> Document:
    return {"locked": locks.lock(key, scope, document).locked}


def unlock(key: str, scope: str, document: Document) -> Document:
    """Return what was locked; a document that was not, as it is. Raises BadSeal."""
    if "locked" not in document:
        return document
    try:
        return locks.unlock(key, scope, convert(document, Locked), JsonObject)
    except BadDocument as error:
        raise BadSeal(str(error)) from error


def unseal(
    key: str, scope: str, text: str | bytes, *, max_age_s: float | None = None, now: float | None = None
) -> Document:
    """Return the document in ``text``. Raises BadSeal."""
    try:
        return seals.unseal(key, scope, text, JsonObject, max_age_s=max_age_s, now=now)
    except BadDocument as error:
        raise BadSeal(str(error)) from error
