"""How far the records of a run have come: its cursor, and the watermark of each producer."""

from __future__ import annotations

from collections.abc import Sequence

from runs.records.metrics.models import Producer, Telemetry
from runs.records.metrics.rows import marks, query


def telemetry(run_ids: Sequence[str]) -> dict[str, Telemetry]:
    """Return what is known of each run; a run that never reported has an empty, unsaved row."""
    known = Telemetry.objects.in_bulk(list(run_ids))
    return {run_id: known.get(run_id) or Telemetry(run_id=run_id) for run_id in run_ids}


def cursor_of(run_id: str) -> int:
    """Return the number of batches that were committed for the run."""
    return Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0


def cursors_of(run_ids: Sequence[str]) -> dict[str, int]:
    """Return how many batches of each run were committed; 0 for one that never reported."""
    sql = f"SELECT run_id, cursor FROM metrics_telemetry WHERE run_id IN ({marks(len(run_ids))})"
    return dict.fromkeys(run_ids, 0) | dict(query(sql, run_ids))


def watermarks(run_id: str) -> dict[str, int]:
    """Return {producer: longest committed prefix} of every producer of the run."""
    return dict(Producer.objects.filter(run_id=run_id).values_list("producer", "watermark"))


def gaps(run_id: str) -> list[str]:
    """Return the producers whose frames were refused because some before them are missing."""
    return list(Producer.objects.filter(run_id=run_id, has_gap=True).values_list("producer", flat=True))


def is_complete(run_id: str, producers: dict[str, int]) -> bool:
    """Whether all frames arrived, by the producers' own counts."""
    stored = watermarks(run_id)
    return all(stored.get(producer, 0) >= last for producer, last in producers.items())
