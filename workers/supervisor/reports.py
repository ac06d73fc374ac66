"""The report of an attempt on this node, and when it goes out."""

import contextlib
import os
import shutil
import time
from copy import copy
from typing import Any

import structlog

from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport, Reason
from trainyard.contract.statuses import Phase
from trainyard.spooling.reader import last_sequences
from workers.supervisor.contact import Contact
from workers.supervisor.records.rule_watch import RuleWatch
from workers.supervisor.records.shipper import Shipper
from workers.supervisor.starting import Starting
from workers.supervisor.valkey_thread import ValkeyThread

log = structlog.get_logger(__name__)

RESERVE_BYTES = 256 * 1024
LEAST_FREE_BYTES = 64 * 1024


def make_report(order: Order, *, at: float, phase: Phase, address: str = "", **more: Any) -> AttemptReport:
    """Return the report of the order's attempt, with ``more`` of its fields. ``at``: Unix seconds."""
    return AttemptReport(
        attempt=order.attempt,
        run=order.run,
        fence=order.fence,
        node=order.node,
        at=at,
        phase=phase,
        address=address,
        **more,
    )


class Reporting:
    """Publishes what is so: to the node worker in the folder of the attempt, and to the server by a thread."""

    def __init__(self, starting: Starting, address: str, rules: RuleWatch, contact: Contact, shipper: Shipper) -> None:
        self._starting, self._address, self._rules, self._contact = starting, address, rules, contact
        self._reason: Reason | None = None
        self.phase = Phase.READY if starting.environment is None else Phase.PREPARING
        with contextlib.suppress(OSError):
            starting.folder.reserve.write_bytes(bytes(RESERVE_BYTES))
        self.latest = self._report()
        self._thread = ValkeyThread(contact, shipper, lambda: self.latest)

    def begin(self) -> None:
        self.publish()
        self._thread.start()

    def publish(self) -> None:
        self.latest = self._report()
        try:
            self._starting.folder.write_report(self.latest)
        except OSError as error:  # a full disk must not end the ranks; the server gets the report all the same
            log.error("report.unwritten", phase=self.phase, error=str(error))
        self._thread.send_now()

    @property
    def is_leased(self) -> bool:
        """Return whether silence must end this attempt, since the server may go on without it. Before go it looks for
        another place at once; after go, only where the desired state allows it. Otherwise the ranks outlive an absent
        server."""
        return self._starting.go is None or self._contact.may_replace

    def release_reserve(self) -> bool:
        """Make room for the final report. Returns whether the disk is full."""
        folder, is_full = self._starting.folder, False
        with contextlib.suppress(OSError):
            is_full = shutil.disk_usage(folder.path).free < LEAST_FREE_BYTES
            folder.reserve.unlink(missing_ok=True)
        return is_full

    def finish(self, reason: Reason | None, *, limit_s: float) -> None:
        """Publish the final report, and ship until the server has it all. Nobody may write into the spool any more."""
        self._reason = reason
        self.publish()
        self._thread.finish(self.latest.producers, limit_s=limit_s)
        if not self._starting.folder.is_ended():  # the disk was full; what was shipped may have made room
            self.publish()

    def _report(self) -> AttemptReport:
        starting, environment = self._starting, self._starting.environment
        report = make_report(
            starting.order,
            at=time.time(),
            phase=self.phase,
            address=self._address,
            reason=self._reason,
            ranks=[copy(rank) for rank in starting.ranks],  # as they are now: another thread may send it
            producers=last_sequences(starting.folder.spool) if self.phase == Phase.ENDED else {},
            supervisor_pid=os.getpid(),
            is_leased=self.is_leased,
            matches=self._rules.matches(),
        )
        if self.phase == Phase.READY and (ports := starting.ports):
            report.port, *report.ports = ports
        if environment is not None:
            report.image = environment.image
            report.preparation = environment.sentence if self.phase == Phase.PREPARING else ""
        return report
