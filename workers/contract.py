"""What the product and a node say to each other: keys, names, documents, and the seal on all of them.

Two documents go down, from control to a node, and two come up; each is JSON in a seal (an HMAC with the node's key,
bound to a scope). All are idempotent: they state what is, so a lost one costs a second and a repeated one nothing.

DOWN  ``down_key(node)``      rewritten every tick from the database, and at once when something changed::

    {"at": unix, "node": id, "epoch": str,
     "server": URL,                                   where the server's REST is, for a node that finds nobody there
     "attempts": {attempt: {"run", "fence", "wanted": "prepare" | "run" | "stop",
                            "order": Order | null,       until the node has reported the attempt
                            "go": Go | null,             once every node of the attempt is ready
                            "grace_s": seconds | null,   with "stop": what the ranks have to end, from now or from when
                                                         they were asked to; null: what the spec's limits.grace says
                            "may_replace": bool,
                            "leftovers": "" | "upload" | "discard",   what somebody has decided about what was not sent
                            "is_gone": bool,             the run was deleted: nobody waits for what is left of it
                            "trace": {"id", "first", "steps", "ranks": "all" | [rank, …]} | null,
                            "watermarks": {producer: sequence},
                            "resend": [producer, …]}}}   ingest saw a gap: send again from the watermark

  An attempt that is absent, or a document that is old, means *unknown*, never *stop*.
  ``may_replace``: the server may place another attempt once it has heard nothing of this one for ``lease_s``.
  Absent means no: the ranks go on without contact for as long as it takes. The supervisor repeats it as ``is_leased``,
  and only where the last report says so is silence a proof that nothing runs. Before go no rank exists, the server
  looks for another place at once, and silence ends the supervisor in any case.

  An Order, and a Question, travel locked: {"locked": text} that only the node's key opens (``lock``), since a run's
  environment and the address of data are nobody else's business.

  Order: {"attempt", "run", "fence", "node", "node_name", "node_rank", "num_nodes", "first_rank", "num_ranks",
          "world_size", "slots": [index, …], "shard", "name", "spec": {…}, "accelerator": "cpu" | "gpu",
          "code": {"sha256", "size_bytes"} | null, "lease_s"}
  Go:    {"master_addr", "master_port", "checkpoints": [{"run", "step", "fence"}, …]}   what to go on from, the newest
         first, MAX_OFFERED at most; a node that is older knows nothing of it, and its ranks start anew

UP    ``up_key(node)``            the node worker, every second: who I am and how I feel::

    {"at", "node", "name", "version", "address", "pid", "inventory": Inventory, "health": Health,
     "attempts": {attempt: {"run", "fence", "phase", "is_done", "output": Output}},   all that have a folder here
     "troubles": {attempt: sentence},   why one that is to be prepared is not prepared yet; it is tried again
     "inspecting": [question, …]}                                   datasets that are looked at, or whose answer waits

      ``is_done``: it is over, and all of its records and output have arrived. Control lists it no more then, takes
      no file of it any more, and the node forgets its folder a day later.
      Output: {"problem": why what is to be sent waits, or "", "num_refused", "refused": {file: why, …}, "is_sent",
      "num_pending", "pending": {file: bytes, …}, "sending": {file: bytes that have gone}}; some are named. Refused is
      what never comes. ``is_sent``: all of it was sent that is sent unasked; the attempt may not be done still, since
      what was refused, or is left in the working folder, waits for a person's word.

      ``report_key(node, attempt)`` the supervisor, on every change and every second (when it is gone, the node
      worker repeats the last one, or writes the final one itself)::

    {"at", "attempt", "run", "fence", "node", "phase": "ready" | "running" | "stopping" | "ended" | "refused",
     "address", "port", "supervisor_pid", "reason": {"code", "sentence", "evidence": {…},
                "at": unix of the cause, where known} | null,
     "ranks": [{"rank", "pid", "started_at", "ended_at", "exit_code", "signal", "error": {"type", "message",
                "traceback"} | null, "has_joined": bool, once ended: whether all ranks were together by then,
                "has_listened": bool | null, of a cold rank 0: whether MASTER_PORT was seen open,
                "was_ended": bool, the supervisor killed it,
                "exit_hang": bool, its script was over and its process did not exit: it was ended,
                "printed_at", "computed_at": unix | null, when it last did, to within 15 s,
                "group": "unknown" | "none" | "waiting" | "joined", "waiting_since": unix | null}],
                         what is known of a script's rank and torch's process group: nothing of a cold one
     "producers": {producer: last sequence (final only when phase is "ended")},
     "is_leased": bool}      silence ends it at 0.8 of ``lease_s``

  Inventory: {"hostname", "platform", "python", "torch": version | null, "cpu": {"model", "count": its
              share of the cores, "machine_count"}, "memory_bytes", "disk_bytes",
              "gpus": [{"index", "name", "uuid", "memory_bytes"}], "driver": version | null}
  Health:    {"cpu_percent", "load", "memory_bytes", "memory_used_bytes", "disk_bytes", "disk_used_bytes",
              "network_received_bytes_per_s", "network_sent_bytes_per_s", "gpus": [{"index", "utilization_percent",
              "memory_bytes", "memory_used_bytes", "temperature_c", "power_w"}]}; a GPU's values may be null

Seals: a document that lives under a key is sealed with that key as its scope, except the attempt report, which is
sealed with ``report_scope`` so that a stale fence does not open. A node's REST calls are sealed with ``http_scope``
over the hex SHA-256 of the body; the path in it is the one after percent-decoding. Its time is the server's, as the
node learns it from the down document, and the server takes each nonce once.

Celery messages (``PREPARE``, ``GO``, ``NUDGE``, ``INSPECT``) may be lost. Each has one argument ``sealed``, sealed with
``command_scope(task, node)`` and stamped ``at``: PREPARE holds the Order, GO {"attempt", "run", "fence", "go": Go},
NUDGE nothing more (read your down document now). INSPECT holds a Question: {"dataset", "project", "question", "recipe",
"data" (all of the spec's task.data)}; control repeats it until the node's up document lists the question. The node
answers by REST, sealed as all of its calls are: {"question", "facts"} or {"question", "problem": sentence}.

CHANGED_CHANNEL: a supervisor publishes its run's id when its report says something new. A hint like the commands: what
it leads to is a look at the sealed report, so that a forged or lost one costs nothing.

STREAM ``stream_key(shard)``: entries with fields ``n`` node id, ``r`` run id, ``a`` attempt id, ``f`` fence,
``d`` frames as trainyard.spooling.frames writes them, one behind the other, and ``m`` the seal over ``d``.
A supervisor waits while it has STREAM_LIMIT_ENTRIES or takes STREAM_LIMIT_BYTES; nothing is ever trimmed.
Health samples travel the same way with r, a empty and f 0, and ``d`` one JSON document {"at", …Health}.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PREFIX = "trainyard"
EPOCH_KEY = f"{PREFIX}:epoch"
CHANGED_CHANNEL = f"{PREFIX}:changed"
CONTROL_QUEUE = "control"
RECONCILE_RUN = "runs.tasks.reconcile_run"
PREPARE = "workers.tasks.prepare"
GO = "workers.tasks.go"
NUDGE = "workers.tasks.nudge"
INSPECT = "workers.tasks.inspect"

MAX_OFFERED = 5
OUTPUT_NAMED = 5
UPLOAD_PART_BYTES = 8 * 1024 * 1024  # of a file that is larger; the smaller go whole
UNSENT_KEPT_S = (
    30 * 86_400.0
)  # for so long after its end an attempt's files are kept by its node and taken by the server
CONTACT_LOST_S = 5.0
DEFAULT_LEASE_S = 600.0
MAX_FACTS_BYTES = 60_000  # of what a node says of a dataset
STREAM_LIMIT_ENTRIES = 20_000
STREAM_LIMIT_BYTES = 256 * 1024 * 1024

Document = dict[str, Any]


class BadSeal(ValueError):
    """A message that was not sealed by the key it claims, or for another scope, or too long ago."""


def broker_url(redis_url: str) -> str:
    """Return kombu's spelling of a Redis URL: a Unix socket is ``redis+socket://``, its database a virtual host."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    login = f"{parts.netloc}" if "@" in parts.netloc else ""
    return f"redis+socket://{login}{quote(parts.path)}?virtual_host={database}"


def node_queue(name: str) -> str:
    return f"node.{name}"


def stream_key(shard: int) -> str:
    return f"{PREFIX}:stream:{shard}"


def down_key(node_id: str) -> str:
    return f"{PREFIX}:down:{node_id}"


def up_key(node_id: str) -> str:
    return f"{PREFIX}:up:{node_id}"


def report_key(node_id: str, attempt_id: str) -> str:
    return f"{PREFIX}:report:{node_id}:{attempt_id}"


def new_key() -> str:
    """Return a fresh node key, 64 hex digits."""
    return secrets.token_hex(32)


def command_scope(task: str, node_id: str) -> str:
    return f"command:{task}:{node_id}"


def control_scope(task: str) -> str:
    """Of control's own tasks, which web and control seal with a key that only they have."""
    return f"control:{task}"


def http_scope(method: str, path: str, at: int, nonce: str = "") -> str:
    """``nonce``: 32 hex digits that no other request of the node has; the server takes each once."""
    return f"http:{nonce}:{method}:{path}:{at}" if nonce else f"http:{method}:{path}:{at}"


def report_scope(node_id: str, run_id: str, fence: int) -> str:
    return f"report:{node_id}:{run_id}:{fence}"


def frames_scope(node_id: str, run_id: str, fence: int) -> str:
    return f"frames:{node_id}:{run_id}:{fence}"


def order_scope(node_id: str) -> str:
    return f"order:{node_id}"


def question_scope(node_id: str) -> str:
    return f"question:{node_id}"


def lock(key: str, scope: str, document: Document) -> Document:
    """Return ``document`` so that only who has the node's key can read it: AES-256-GCM, bound to the scope. A seal
    alone shows it to whoever reads along in Valkey."""
    nonce = secrets.token_bytes(12)
    hidden = AESGCM(_lock_key(key)).encrypt(nonce, json.dumps(document).encode(), scope.encode())
    return {"locked": base64.b64encode(nonce + hidden).decode()}


def unlock(key: str, scope: str, document: Document) -> Document:
    """Return what was locked; a document that was not, as it is. Raises BadSeal."""
    if "locked" not in document:
        return document
    try:
        data = base64.b64decode(document["locked"], validate=True)
        found = json.loads(AESGCM(_lock_key(key)).decrypt(data[:12], data[12:], scope.encode()))
    except (InvalidTag, ValueError, TypeError) as error:
        raise BadSeal(f"what was locked for {scope} does not open") from error
    if not isinstance(found, dict):
        raise BadSeal(f"what was locked for {scope} is not a document")
    return found


@lru_cache(maxsize=4096)
def _lock_key(key: str) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=b"trainyard orders").derive(bytes.fromhex(key))


def mac(key: str, scope: str, payload: bytes) -> str:
    """Return the HMAC-SHA-256 of scope and payload, hex. The scope's length is in it, so that no pair collides."""
    digest = hmac.new(bytes.fromhex(key), f"{len(scope)}:{scope}".encode(), hashlib.sha256)
    digest.update(payload)
    return digest.hexdigest()


def check_mac(key: str, scope: str, payload: bytes, claimed: str) -> None:
    """Raise BadSeal unless ``claimed`` is the HMAC of scope and payload."""
    if not hmac.compare_digest(mac(key, scope, payload).encode(), claimed.encode("utf-8", "replace")):
        raise BadSeal(f"the seal for {scope} does not fit")


def seal(key: str, scope: str, document: Document) -> str:
    """Return ``document`` as text with an HMAC over scope and content."""
    body = json.dumps(document, separators=(",", ":"))
    return f"{mac(key, scope, body.encode())}.{body}"


def unseal(
    key: str, scope: str, text: str | bytes, *, max_age_s: float | None = None, now: float | None = None
) -> Document:
    """Return the document in ``text``. Raises BadSeal when the seal does not fit, or ``at`` is further than max_age_s
    from ``now``, which is this machine's time unless it is given."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    claimed, _, body = text.partition(".")
    check_mac(key, scope, body.encode(), claimed)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:  # sealed all the same: its sender is broken, or hostile
        raise BadSeal(f"the message for {scope} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise BadSeal(f"the message for {scope} is not a document")
    if max_age_s is not None and not _is_within(document.get("at", 0), now, max_age_s):
        raise BadSeal(f"the message for {scope} is older than {max_age_s:g} s")
    return document


def _is_within(at: object, now: float | None, max_age_s: float) -> bool:
    return isinstance(at, int | float) and abs((time.time() if now is None else now) - at) <= max_age_s
