"""State of a run after its last commits, kept so that the next one need not read it: telemetry, producers, series.

It is believed only while the run's cursor in the database is the one that it goes with: whoever stores anything moves
the cursor, in the same transaction, under the lock of the run's row. REST, in another process, does so too.
"""

import json
import time
from collections import OrderedDict
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import connections

from runs.ingest.troubles import MAX_SERIES_PER_RUN
from runs.records.media.store import Totals
from runs.records.metrics.models import Producer, Telemetry
from runs.records.points.store import SeriesTable
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.storage_keys import keyring_of_run
from trainyard.at_rest.keyring import NO_KEYS, Keyring

log = structlog.get_logger(__name__)

KEYRING_KEPT_S = 5.0  # so long after a switch of it lines are stored as before
KEPT_ROWS = 50_000  # of all runs together; a row takes up to a kilobyte


@dataclass
class Known:
    """A run as it is after ``telemetry.cursor`` batches."""

    telemetry: Telemetry
    series: SeriesTable
    producers: dict[str, Producer] = field(default_factory=dict)
    clocks: dict[str, float] = field(default_factory=dict)  # the newest time in each producer's records
    media: Totals | None = None  # not counted yet
    log_bytes: int | None = None  # of all lines; not counted yet
    keyring: Keyring | None = NO_KEYS  # of the project; None: it cannot be had
    keyring_until: float = float("-inf")  # by the monotonic clock; then it is looked up again

    def current_keyring(self) -> Keyring | None:
        """Return the keys that lines and media are encrypted with now; None where they cannot be had."""
        if time.monotonic() >= self.keyring_until:
            try:
                self.keyring = keyring_of_run(self.telemetry.run_id)
            except KeyProblem as error:
                self.keyring = None
                log.warning("ingest.no_key", run=self.telemetry.run_id, error=str(error))
            self.keyring_until = time.monotonic() + KEYRING_KEPT_S
        return self.keyring

    @property
    def num_rows(self) -> int:
        return 10 + len(self.producers) + len(self.series.rows)


class Memory:
    """The runs that were committed last. Whoever's transaction fails must forget() what was in it."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Known] = OrderedDict()
        self._num_rows = 0

    def lock(self, run_id: str) -> Known:
        """Lock the run's row for the transaction, and return the run as it is now."""
        known = self.forget(run_id)
        if known is not None and _is_current(known.telemetry):
            return known
        Telemetry.objects.get_or_create(run_id=run_id)
        telemetry = Telemetry.objects.select_for_update().get(run_id=run_id)
        return Known(telemetry, SeriesTable(run_id, at_most=MAX_SERIES_PER_RUN))

    def keep(self, known: Known) -> None:
        """Remember the run as it was left, and forget those that were not needed for longest."""
        if not known.telemetry.cursor:  # nothing was stored: one that is deleted and made again would look the same
            return
        self._runs[known.telemetry.run_id] = known
        self._num_rows += known.num_rows
        while self._num_rows > KEPT_ROWS:
            self.forget(next(iter(self._runs)))

    def forget(self, run_id: str) -> Known | None:
        known = self._runs.pop(run_id, None)
        if known is not None:
            self._num_rows -= known.num_rows
        return known

    def clear(self) -> None:
        self._runs.clear()
        self._num_rows = 0


def _is_current(telemetry: Telemetry) -> bool:
    """Lock the row and return whether nothing was stored since. Troubles do not move the cursor: they are read anew."""
    connection = connections[settings.METRICS_DATABASE]
    lock = " FOR UPDATE" if connection.features.has_select_for_update else ""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT cursor, troubles FROM metrics_telemetry WHERE run_id = %s{lock}", [telemetry.run_id])
        row = cursor.fetchone()
    if row is None or row[0] != telemetry.cursor:
        return False
    telemetry.troubles = json.loads(row[1])
    return True
