"""Compaction as benchmarks want it: waited for where ingest does it, done at once where nobody else writes."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

PATIENCE_S = 60.0


def wait_for_compaction(path: Path, patience_s: float = PATIENCE_S) -> bool:
    """Return whether the running ingest has folded all blocks in the metrics' SQLite file ``path``. It does so when
    a run has brought much, or has been quiet for half a minute."""
    deadline = time.monotonic() + patience_s
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
        while database.execute("SELECT count(*) FROM metrics_block").fetchone()[0]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
    return True


def compact_now() -> None:
    """Compact everything that is stored, in this process. No ingest may run: the store has one writer."""
    from runs.records.metrics.models import Telemetry
    from runs.records.points.compaction.compactor import _waiting

    cursors = dict(Telemetry.objects.values_list("pk", "cursor"))
    for run_id, *_ in _waiting():
        if run_id in cursors:
            compact_run(run_id, cursors[run_id], is_quiet=True)


def compact_run(run_id: str, bound: int, *, is_quiet: bool) -> None:
    """Compact all that the run has up to cursor ``bound``. Raises RunGone."""
    from runs.records.logs.compaction import fold_lines
    from runs.records.points.compaction.sealing import fold_blocks, seal

    while fold_blocks(run_id, bound):
        pass
    while seal(run_id, bound, is_quiet=is_quiet) or fold_lines(run_id, bound, is_quiet=is_quiet):
        pass
