"""Whether the server is well: for `trainyard doctor --server`, the page of administrators and a support bundle."""

import json
import shutil
import smtplib
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from django.conf import settings
from django.core.mail import get_connection

from dashboard.home import LAST_BACKUP
from runs.engines.findings import Finding
from runs.presenting import server_state
from runs.rights.secrets.store import what_does_not_open
from runs.serving.transport import redis

MOST_DAYS, LEAST_FREE, MOST_SKEW_S = 7, 0.05, 2.0


def of_secrets() -> Finding:
    closed = what_does_not_open()
    return Finding("secrets", not closed, closed or "The keys open what is stored.")


def of_server() -> Iterator[Finding]:
    """Yield what Valkey, control, ingest, clock, disk and backups are like, without the database."""
    state = server_state.look(asks_database=False)
    for sentence in state.sentences:
        yield Finding("server", False, sentence, f"Its logs are in {settings.HOME / 'logs'}, or in the journal.")
    if state.valkey:
        skew_s = abs(time.time() - redis().time()[0])
        yield Finding("clock", skew_s < MOST_SKEW_S or None, f"{skew_s:.0f} s beside Valkey's.")
        yield Finding("Valkey", True, "It answers.")
    room = shutil.disk_usage(settings.HOME)
    advice = "" if (is_roomy := room.free > LEAST_FREE * room.total) else "Make room: at 0 nothing is stored."
    yield Finding("disk", is_roomy or None, f"{room.free / 1e9:,.1f} of {room.total / 1e9:,.1f} GB are free.", advice)
    try:
        last = json.loads((settings.HOME / LAST_BACKUP).read_text())
        days = (datetime.now(UTC) - datetime.fromisoformat(last["at"])).days
        yield Finding("backup", days <= MOST_DAYS or None, f"{last['file']} is {days} days old.")
    except (OSError, ValueError):
        yield Finding("backup", None, "None was made of this home.", "`trainyard backup FOLDER` makes one.")


def of_mail() -> Iterator[Finding]:
    """Connect and sign in where e-mail is sent to; nothing is sent."""
    if not settings.EMAIL_HOST:
        return
    place = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        with get_connection():
            yield Finding("mail", True, f"{place} takes e-mail.")
    except (OSError, smtplib.SMTPException) as error:
        yield Finding("mail", False, f"{place} takes none: {error}.", "See EMAIL_HOST, EMAIL_USER and EMAIL_TLS.")
