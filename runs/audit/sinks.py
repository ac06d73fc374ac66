"""Rows of the audit for another system, as syslog (RFC 5424) writes them. Off unless AUDIT_SYSLOG names a place.

A thread of its own sends, from a queue with an end: a collector that is away costs lines there and a warning here, and
never an answer to a person. The rows themselves are in the database.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from datetime import UTC
from functools import cache
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog
from django.conf import settings

from runs.models.security.audit import AuditEntry

log = structlog.get_logger(__name__)

MAX_WAITING = 2_000
CONNECT_S = 5.0
PRIORITY = 13 * 8 + 5  # facility 13 is "log audit", severity 5 is "notice"
ENTERPRISE = "trainyard@32473"  # the number of RFC 5612 for documentation


class Place(NamedTuple):
    kind: str  # udp, tcp or unix
    host: str
    port: int


def place_of(text: str) -> Place | None:
    """Return where ``udp://host:514``, ``tcp://host:601`` or ``unix:///dev/log`` leads; None for nothing. Raises
    ValueError for anything else."""
    if not text:
        return None
    parts = urlsplit(text)
    if parts.scheme == "unix" and parts.path:
        return Place("unix", parts.path, 0)
    if parts.scheme in ("udp", "tcp") and parts.hostname:
        return Place(parts.scheme, parts.hostname, parts.port or (514 if parts.scheme == "udp" else 601))
    raise ValueError(f"AUDIT_SYSLOG must be udp://host:port, tcp://host:port or unix:///path, not {text!r}")


def as_syslog(row: AuditEntry) -> bytes:
    """Return the row as one message of RFC 5424: facts as structured data, the sentence as text."""
    at = row.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    facts = {
        "sequence": row.sequence,
        "actor": row.actor,
        "token": row.token,
        "address": row.address,
        "action": row.action,
        "object": row.object,
        "project": row.project,
        "result": row.result,
        "hash": row.hash,
        "previous": row.previous_hash,
    }
    data = " ".join(f'{name}="{_escaped(str(value))}"' for name, value in facts.items())
    details = json.dumps({"before": row.values_before, "after": row.values_after}, separators=(",", ":"))
    head = f"<{PRIORITY}>1 {at} {socket.gethostname()[:255] or '-'} trainyard {os.getpid()} audit [{ENTERPRISE} {data}]"
    return f"{head} \ufeff{details}".encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]").replace("\n", " ")


def send(row: AuditEntry) -> None:
    """Hand the row to the sender, if there is a place. Never waits, never raises."""
    sender = _sender(settings.AUDIT_SYSLOG)
    if sender is not None:
        sender.put(as_syslog(row))


@cache
def _sender(text: str) -> Sender | None:
    place = place_of(text)
    return None if place is None else Sender(place)


class Sender:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._waiting: queue.Queue[bytes] = queue.Queue(MAX_WAITING)
        self._socket: socket.socket | None = None
        self.num_dropped = 0
        threading.Thread(target=self._run, name="audit-syslog", daemon=True).start()

    def put(self, message: bytes) -> None:
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._drop("the queue is full")

    def _run(self) -> None:
        while True:
            message = self._waiting.get()
            for is_last in (False, True):  # a connection that the collector closed shows when it is used
                try:
                    self._send(message)
                    break
                except OSError as error:
                    self._close()
                    if is_last:
                        self._drop(str(error))

    def _send(self, message: bytes) -> None:
        if self._socket is None:
            self._socket = self._connected()
        if self._place.kind == "tcp":  # RFC 6587: the length stands before each message
            self._socket.sendall(f"{len(message)} ".encode() + message)
        else:
            self._socket.send(message)

    def _connected(self) -> socket.socket:
        kind, host, port = self._place
        if kind == "tcp":
            return socket.create_connection((host, port), timeout=CONNECT_S)
        if kind == "unix":
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            made.connect(host)
            return made
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.connect(address)
        return made

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _drop(self, why: str) -> None:
        self.num_dropped += 1
        if self.num_dropped & (self.num_dropped - 1) == 0:  # the 1st, 2nd, 4th, 8th …
            log.warning("audit.not_sent", dropped=self.num_dropped, error=why)
