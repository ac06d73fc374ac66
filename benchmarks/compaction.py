"""Waits until ingest, in its idle moments, has compacted what it wrote. Looks at the file alone, from any process."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

PATIENCE_S = 60.0
WAITING = """
    SELECT (SELECT count(*) FROM metrics_block) + (SELECT count(*) FROM metrics_segment WHERE NOT is_sealed)
"""


def wait_for_compaction(path: Path, patience_s: float = PATIENCE_S) -> bool:
    """Return whether nothing waits to be compacted any more in the metrics' SQLite file ``path``."""
    deadline = time.monotonic() + patience_s
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as database:
        while database.execute(WAITING).fetchone()[0]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
    return True
