"""The two documents that a supervisor and the server exchange through Valkey: the report up, what is wanted down."""

from __future__ import annotations

import json
import time
from typing import Any

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from workers.contract import (
    CHANGED_CHANNEL,
    EPOCH_KEY,
    BadSeal,
    Document,
    down_key,
    report_key,
    report_scope,
    seal,
    unseal,
)

log = structlog.get_logger(__name__)

REPORT_KEPT_S = 86_400


def connect(url: str) -> redis.Redis:
    """Return a client that gives up quickly: whoever uses it comes back a second later anyway."""
    return redis.Redis.from_url(
        url,
        socket_timeout=2.0,
        socket_connect_timeout=1.0,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 0),
    )


class Contact:
    """What this attempt has heard from the server. Used by one thread at a time; read by others."""

    def __init__(self, client: redis.Redis, key: str, order: Document) -> None:
        self._client = client
        self._key = key
        self._order = order
        self._at: float | None = None
        self._said: Document | None = None  # the last report that went out, without its time
        self.heard_at = time.monotonic()
        self.cause: str | None = None  # why the ranks must end, once the server says so; never taken back
        self.grace_s: float | None = None  # what the ranks have to end, where the server names it
        self.go: Document | None = None
        self.trace: Document | None = None  # which steps are to be traced, as last heard
        self.may_replace = False  # the server may place another attempt after a lease of silence
        self.is_listed = False
        self.is_gone = False  # the run was deleted: nobody waits for its records
        self.epoch: str | None = None
        self.watermarks: dict[str, int] = {}
        self.resend: frozenset[str] = frozenset()

    def silence_s(self) -> float:
        return time.monotonic() - self.heard_at

    def exchange(self, report: Document | None) -> None:
        """Say how we are and hear what is wanted. Raises redis.RedisError when Valkey does not answer."""
        node, attempt = self._order["node"], self._order["attempt"]
        pipe: Any = self._client.pipeline(transaction=False)
        said = None if report is None else {**report, "at": None}
        if report is not None:
            scope = report_scope(node, self._order["run"], self._order["fence"])
            stamped = {**report, "at": time.time()}
            pipe.set(report_key(node, attempt), seal(self._key, scope, stamped), ex=REPORT_KEPT_S)
            if said != self._said:
                pipe.publish(CHANGED_CHANNEL, self._order["run"])
        pipe.get(down_key(node))
        pipe.get(EPOCH_KEY)
        *_, down, epoch = pipe.execute()
        self._said = said if said is not None else self._said
        if epoch is not None:
            self.epoch = epoch.decode()
        if down is not None:
            self._hear(down)

    def _hear(self, text: bytes) -> None:
        try:
            document = unseal(self._key, down_key(self._order["node"]), text)
        except (BadSeal, json.JSONDecodeError) as error:
            log.warning("down.refused", error=str(error))
            return
        # A clock may be wrong, ours or theirs: what counts is that the document is another than before.
        if document.get("at") == self._at:
            return
        self._at = document.get("at")
        self.heard_at = time.monotonic()
        self._apply(document.get("attempts") or {})

    def _apply(self, attempts: dict[str, Document]) -> None:
        for entry in attempts.values():
            if entry["run"] == self._order["run"] and entry["fence"] > self._order["fence"]:
                self.cause = self.cause or "stale_fence"
        own = attempts.get(self._order["attempt"])
        self.is_listed = own is not None and own["fence"] == self._order["fence"]
        if own is None or not self.is_listed:
            return
        self.is_gone = bool(own.get("is_gone"))
        self.may_replace = bool(own.get("may_replace"))
        if own["wanted"] == "stop":
            self.cause = self.cause or "stopped"
            self.grace_s = own.get("grace_s")
        if own["wanted"] == "run" and own.get("go") is not None:
            self.go = own["go"]
        self.trace = own.get("trace")
        for producer, sequence in (own.get("watermarks") or {}).items():
            self.watermarks[producer] = max(sequence, self.watermarks.get(producer, 0))
        self.resend = frozenset(own.get("resend") or ())
