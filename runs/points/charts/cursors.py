"""What is known of an answer before its points are read: of which moment it will be."""

from __future__ import annotations

from collections.abc import Sequence

from runs.metrics.rows import marks, query


def cursors_of(run_ids: Sequence[str]) -> dict[str, int]:
    """Return how many batches of each run were committed; 0 for one that never reported."""
    sql = f"SELECT run_id, cursor FROM metrics_telemetry WHERE run_id IN ({marks(len(run_ids))})"
    return dict.fromkeys(run_ids, 0) | dict(query(sql, run_ids))
