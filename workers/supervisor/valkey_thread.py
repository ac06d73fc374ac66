"""The only thread of a supervisor that uses Valkey, so that a Valkey that hangs never delays the ranks."""

import threading
import time
from collections.abc import Callable

import redis
import structlog

from trainyard.contract.reports import AttemptReport
from workers.supervisor.contact import Contact
from workers.supervisor.records.log_tail import FolderWatch
from workers.supervisor.records.shipper import Shipper

log = structlog.get_logger(__name__)

GATHER_S = 0.02  # pause after a sending, so that more frames travel together
BLOCKED_S = 0.1
POLL_EVERY_S = 0.02
FIRST_PAUSE_S = 0.05
EXCHANGE_EVERY_S = 1.0
LONGEST_PAUSE_S = 2.0
UNLISTED_LIMIT_S = 60.0


class ValkeyThread(threading.Thread):
    """Sends frames and reports, and reads the desired state."""

    def __init__(self, contact: Contact, shipper: Shipper, report: Callable[[], AttemptReport]) -> None:
        super().__init__(name="valkey", daemon=True)
        self._contact, self._shipper, self._report = contact, shipper, report
        self._watch = FolderWatch(shipper.folder)
        self._is_report_due = threading.Event()
        self._over = threading.Event()

    def send_now(self) -> None:
        """Send the report now: it changed."""
        self._is_report_due.set()
        self._watch.wake()

    def run(self) -> None:
        exchange_at = 0.0
        pause_s = FIRST_PAUSE_S
        while not self._over.is_set():
            try:
                if self._is_report_due.is_set() or time.monotonic() >= exchange_at:
                    self._is_report_due.clear()
                    self._contact.exchange(self._report())
                    self._shipper.look_back()
                    self._shipper.clean()
                    exchange_at = time.monotonic() + EXCHANGE_EVERY_S
                is_sent = self._shipper.step()
                if self._shipper.is_blocked:
                    self._is_report_due.wait(BLOCKED_S)
                elif not is_sent:
                    self._watch.wait(exchange_at - time.monotonic())
                elif not self._shipper.has_more:
                    self._is_report_due.wait(GATHER_S)  # a report of news does not wait: a restart may wait for it
                pause_s = FIRST_PAUSE_S
            except redis.RedisError as error:
                log.warning("valkey.away", error=str(error), pause_s=pause_s)
                self._over.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception:  # only this thread ships and reports for the attempt: silence would look like a dead node
                log.exception("valkey_thread.failed")
                self._over.wait(LONGEST_PAUSE_S)

    def finish(self, producers: dict[str, int], *, limit_s: float) -> bool:
        """Wait until the server has all of these sequences and return True; False when that takes too long.

        Nobody may write into the spool any more. An attempt that the server lists no more is given UNLISTED_LIMIT_S:
        its watermarks will not come any more. An attempt of a deleted run is given no time.
        """
        self._shipper.is_over = True
        self.send_now()
        began = listed_at = time.monotonic()
        while not self._shipper.has_passed(producers):
            now = time.monotonic()
            if self._contact.is_listed or self._contact.silence_s() > EXCHANGE_EVERY_S * 5:
                listed_at = now
            if self._contact.is_gone or now - began > limit_s or now - listed_at > UNLISTED_LIMIT_S:
                break
            time.sleep(POLL_EVERY_S)
        self._over.set()
        self.send_now()
        self.join()
        self._watch.close()
        return self._shipper.has_passed(producers)
