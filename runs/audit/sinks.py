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
from functools import cache

import structlog
from django.conf import settings

from runs.audit.collectors import SyslogPlace
from runs.audit.facts import as_attributes, as_time, as_written
from runs.models.security.audit import AuditEntry

log = structlog.get_logger(__name__)

MAX_WAITING = 2_000
CONNECT_S = 5.0
PRIORITY = 13 * 8 + 5  # facility 13 is "log audit", severity 5 is "notice"
ENTERPRISE = "trainyard@32473"  # the number of RFC 5612 for documentation


def as_syslog(row: AuditEntry) -> bytes:
    """Return the row as one message of RFC 5424: facts as structured data, the sentence as text."""
    facts = as_attributes(as_written(row), without=("at", "before", "after"))
    data = " ".join(f'{name}="{_escaped(str(value))}"' for name, value in facts.items())
    details = json.dumps({"before": row.values_before, "after": row.values_after}, separators=(",", ":"))
    host = socket.gethostname()[:255] or "-"
    head = f"<{PRIORITY}>1 {as_time(row.at)} {host} trainyard {os.getpid()} audit [{ENTERPRISE} {data}]"
    return f"{head} \ufeff{details}".encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]").replace("\n", " ")


def send(row: AuditEntry) -> None:
    """Hand the row to the sender, if there is a place. Never waits, never raises."""
    sender = _sender(settings.AUDIT_SYSLOG)
    if sender is not None:
        sender.put(as_syslog(row))


@cache
def _sender(place: SyslogPlace | None) -> Sender | None:
    return None if place is None else Sender(place)


class Sender:
    def __init__(self, place: SyslogPlace) -> None:
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
