"""What a node worker says on stderr: a line per event, and the whole traceback of what nobody expected."""

from __future__ import annotations

import faulthandler
import logging

import structlog

from workers.machine.safe_output import SafeOutput


def configure_logs() -> None:
    faulthandler.enable(2)  # a process that a fault of native code ends says where it was
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(SafeOutput(2)),  # type: ignore[arg-type]  # it prints, which is all that is asked
    )
