"""Health samples of nodes, which travel in the same stream as the records of runs."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import transaction

from runs.ingest.dead_letters import UNABLE, Letters
from runs.metrics.models import NodeSample
from trainyard.contract.base import BadDocument, decode, encode, to_builtins
from trainyard.contract.machines import HealthSample

log = structlog.get_logger(__name__)


def store_samples(samples: Iterable[tuple[str, bytes]], letters: Letters) -> None:
    """Store (node id, JSON document) pairs; one that came before is not stored twice, one that is none is kept as a
    dead letter."""
    rows = []
    for node_id, data in samples:
        try:
            rows.append(_sample(node_id, data))
        except BadDocument as error:
            _bury(letters, node_id, data, str(error))
    try:
        _write(rows)
    except UNABLE:
        raise
    except Exception as error:  # one of them holds what the database cannot: find it
        log.warning("ingest.samples_refused", error=str(error))
        for row in rows:
            try:
                _write([row])
            except UNABLE:
                raise
            except Exception as reason:
                _bury(letters, row.node_id, encode(row.health).encode(), str(reason))


def _write(rows: list[NodeSample]) -> None:
    with transaction.atomic(using=settings.METRICS_DATABASE):
        NodeSample.objects.bulk_create(rows, ignore_conflicts=True)


def _sample(node_id: str, data: bytes) -> NodeSample:
    document = to_builtins(decode(data, HealthSample, takes_nan=False))
    return NodeSample(node_id=node_id, at=document.pop("at"), health=document)


def _bury(letters: Letters, node_id: str, data: bytes, reason: str) -> None:
    letters.write(data, f"health sample: {reason}", node_id=node_id)
