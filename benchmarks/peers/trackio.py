"""Trackio into its local SQLite, read by the function behind its page."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.peers.drive import main, size_of_sqlite


class Trackio:
    def __init__(self, folder: Path) -> None:
        os.environ.update(TRACKIO_DIR=str(folder), HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        self._folder = folder
        self._storage = SQLiteStorage
        self._trackio = trackio
        self._run = trackio.init(project="bench", name="one", embed=False, auto_log_cpu=False, auto_log_gpu=False)

    def log(self, values: dict[str, float], step: int) -> None:
        self._trackio.log(values, step=step)

    def finish(self) -> None:
        self._trackio.finish()

    def read(self, name: str) -> tuple[int, int]:
        rows = self._storage.get_metric_values("bench", "one", name, max_points=1_500)
        return len(rows), int(rows[-1]["step"]) if rows else 0

    def stored_bytes(self) -> int:
        return size_of_sqlite(self._folder / "bench.db")

    def close(self) -> None:
        pass


if __name__ == "__main__":
    main(Trackio)
