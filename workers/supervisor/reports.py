"""The report of an attempt on this node."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from trainyard.contract.desired import TraceRequest
from trainyard.contract.orders import Order
from trainyard.contract.reports import AttemptReport, RankReport, Reason, RuleMatch
from trainyard.contract.statuses import Phase
from workers.attempt.folder import AttemptFolder
from workers.attempt.json_files import write_document

log = structlog.get_logger(__name__)


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
    image: str = "",
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
        image=image,
    )


def write_trace(folder: AttemptFolder, trace: TraceRequest, written: str | None) -> str:
    """Write for the ranks, once, which steps are to be traced. ``written`` is the last request that was."""
    if trace.id != written:
        try:
            write_document(folder.trace_path, trace, mode=0o644)  # its ranks may be another user
        except OSError as error:
            log.warning("trace.unwritten", error=str(error))
    return trace.id
