"""The two documents that a supervisor and the server exchange through Valkey: the report up, the desired state down."""

import time
from typing import Any

import msgspec
import redis

from trainyard.contract.causes import HangFinding
from trainyard.contract.desired import DesiredAttempt, TraceRequest
from trainyard.contract.limits import DEFAULT_LEASE_S
from trainyard.contract.orders import Go, Order
from trainyard.contract.reports import AttemptReport
from trainyard.contract.seals import CHANGED_CHANNEL, EPOCH_KEY, down_key, report_key, report_scope, seal
from trainyard.contract.statuses import WantedPhase
from workers.transport.desired_reader import DesiredReader

REPORT_KEPT_S = 86_400
LEASE_SHARE = 0.8


def _now() -> float:
    """Seconds that also pass while the machine is suspended: the server's lease does not wait for it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Contact:
    """Everything that this attempt has received from the server. Used by one thread at a time; read by others."""

    def __init__(self, client: redis.Redis, key: str, order: Order) -> None:
        self._client, self._key, self._order = client, key, order
        self._reader = DesiredReader(key, order.node)
        self._sent: AttemptReport | None = None  # the last report that went out, without its time
        self.contact_at = _now()
        self.cause: str | None = None  # why the ranks must end, once the server wants it; never taken back
        self.grace_s: float | None = None  # what the ranks have to end, where the server names it
        self.hang: HangFinding | None = None  # for which the ranks are ended
        self.go: Go | None = None
        self.trace: TraceRequest | None = None  # the last one received
        self.may_replace = True  # the server may place another attempt after a lease of silence; it has not denied it
        self.is_listed = False
        self.is_gone = False  # the run was deleted: nobody waits for its records
        self.epoch: str | None = None
        self.watermarks: dict[str, int] = {}
        self.resend: frozenset[str] = frozenset()

    def silence_s(self) -> float:
        return _now() - self.contact_at

    def is_over(self, lease_s: float, *, has_ranks: bool) -> bool:
        """Return whether the silence is so long that the ranks must end. Before they start, an end loses nothing."""
        return self.silence_s() > LEASE_SHARE * (lease_s if has_ranks else min(lease_s, DEFAULT_LEASE_S))

    def exchange(self, report: AttemptReport | None) -> None:
        """Send the report and read the desired state. Raises redis.RedisError when Valkey does not answer."""
        order = self._order
        pipe: Any = self._client.pipeline(transaction=False)
        timeless = None if report is None else msgspec.structs.replace(report, at=0.0)
        if report is not None:
            scope = report_scope(order.node, order.run, order.fence)
            stamped = msgspec.structs.replace(report, at=time.time())
            pipe.set(report_key(order.node, order.attempt), seal(self._key, scope, stamped), ex=REPORT_KEPT_S)
            if timeless != self._sent:
                pipe.publish(CHANGED_CHANNEL, order.run)
        pipe.get(down_key(order.node))
        pipe.get(EPOCH_KEY)
        *_, down, epoch = pipe.execute()
        self._sent = timeless if timeless is not None else self._sent
        if epoch is not None:
            self.epoch = epoch.decode()
        if down is not None and (desired := self._reader.read(down)) is not None:
            self.contact_at = _now()
            self._apply(desired.attempts)

    def _apply(self, attempts: dict[str, DesiredAttempt]) -> None:
        if any(one.run == self._order.run and one.fence > self._order.fence for one in attempts.values()):
            self.cause = self.cause or "stale_fence"
        own = attempts.get(self._order.attempt)
        self.is_listed = own is not None and own.fence == self._order.fence
        if own is None or not self.is_listed:
            return
        self.is_gone = own.is_gone
        self.may_replace = own.may_replace
        if own.hang is not None and self.cause is None:
            self.hang, self.cause = own.hang, "hang"
        if own.wanted == WantedPhase.STOP:
            self.cause = self.cause or "stopped"
            self.grace_s = own.grace_s
        if own.wanted == WantedPhase.RUN and own.go is not None:
            self.go = own.go
        self.trace = own.trace
        for producer, sequence in own.watermarks.items():
            self.watermarks[producer] = max(sequence, self.watermarks.get(producer, 0))
        self.resend = frozenset(own.resend)
