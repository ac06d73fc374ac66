"""Logging of our own processes: one line per event, readable on a terminal, JSON with LOG_FORMAT=json."""

import faulthandler
import logging
import os
from typing import Any

import structlog


class NoProbes(logging.Filter):
    """Leaves out /health's "not yet": the prober gets that answer and repeats within a second."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.name == "django.request" and getattr(record, "status_code", 0) == 503)


def configure() -> dict[str, Any]:
    """Set structlog up and return Django's LOGGING, so that libraries' lines look like ours."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not faulthandler.is_enabled():  # a process that a fault of native code ends says where it was
        faulthandler.enable(2)
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    # Tracebacks as Python prints them: in a box each frame takes ten lines.
    plain = structlog.dev.plain_traceback
    renderer: Any = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, exception_formatter=plain)
    if os.environ.get("LOG_FORMAT") == "json":
        renderer = structlog.processors.JSONRenderer()
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            }
        },
        "filters": {"no_probes": {"()": NoProbes}},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["no_probes"]}},
        "root": {"handlers": ["out"], "level": "INFO"},
        "loggers": {
            # A tick every second would fill the log with "received" and "succeeded".
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            "kombu.connection": {"level": "ERROR"},  # it warns that a Unix socket has no host name
            "httpx": {"level": "WARNING"},
            "psycopg.pool": {"level": "ERROR"},  # who asked for the connection says that it did not come
            # Its own handler to people by mail is not for us, and a 4xx is the asker's matter.
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.request": {"level": "ERROR"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            "uvicorn.error": {"level": "WARNING"},
        },
    }
