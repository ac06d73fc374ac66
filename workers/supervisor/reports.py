"""The report of an attempt on this node."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport, RankReport, Reason, RuleMatch
from trainyard.contract.statuses import Phase


def make_report(
    order: Order,
    *,
    at: float,
    phase: Phase,
    address: str = "",
    ports: Sequence[int] = (),
    supervisor_pid: int | None = None,
    reason: Reason | None = None,
    ranks: Sequence[RankReport] = (),
    producers: dict[str, int] | None = None,
    is_leased: bool = False,
    matches: Sequence[RuleMatch] = (),
    preparation: str = "",
) -> AttemptReport:
    """Return the report of the order's attempt. ``at``: Unix seconds; ``ports``: MASTER_PORT, and those of ranks."""
    return AttemptReport(
        at=at,
        attempt=order.attempt,
        run=order.run,
        fence=order.fence,
        node=order.node,
        phase=phase,
        address=address,
        port=ports[0] if ports else None,
        ports=list(ports[1:]),
        supervisor_pid=supervisor_pid,
        reason=reason,
        ranks=list(ranks),
        producers=producers or {},
        is_leased=is_leased,
        matches=list(matches),
        preparation=preparation,
    )
