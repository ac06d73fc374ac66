"""Health samples of nodes, which travel in the same stream as the records of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import DataError, IntegrityError, transaction

from runs.ingest.dead_letters import Letters
from runs.metrics.models import NodeSample
from trainyard.contract.base import convert, parse_strictly, to_builtins
from trainyard.contract.machines import HealthSample

log = structlog.get_logger(__name__)


def store_samples(samples: Iterable[tuple[str, bytes]], letters: Letters) -> None:
    """Store (node id, JSON document) pairs; one that came before is not stored twice, one that is none is kept as a
    dead letter."""
    rows = []
    for node_id, data in samples:
        try:
            rows.append(_sample(node_id, data))
        except ValueError as error:
            _bury(letters, node_id, data, str(error))
    try:
        _write(rows)
    except (DataError, IntegrityError) as error:  # one of them holds what the database cannot: find it
        log.warning("ingest.samples_refused", error=str(error))
        for row in rows:
            try:
                _write([row])
            except (DataError, IntegrityError) as reason:
                _bury(letters, row.node_id, json.dumps(row.health).encode(), str(reason))


def _write(rows: list[NodeSample]) -> None:
    with transaction.atomic(using=settings.METRICS_DATABASE):
        NodeSample.objects.bulk_create(rows, ignore_conflicts=True)


def _sample(node_id: str, data: bytes) -> NodeSample:
    sample = convert(parse_strictly(data), HealthSample)
    document = to_builtins(sample)
    return NodeSample(node_id=node_id, at=document.pop("at"), health=document)


def _bury(letters: Letters, node_id: str, data: bytes, reason: str) -> None:
    letters.write(data, f"health sample: {reason}", node_id=node_id)
