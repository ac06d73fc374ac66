"""MLflow: its server on SQLite and its asynchronous client, read as its page reads."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.peers.drive import end, fetch, free_port, main, serve, size_of_sqlite


class MLflow:
    def __init__(self, folder: Path) -> None:
        os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true", GIT_PYTHON_REFRESH="quiet")
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        if url := os.environ.get("BENCH_MLFLOW"):  # another server, which runs already
            self._begin(url)
            return
        self._url = f"http://127.0.0.1:{free_port()}"
        words = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", self._url.rpartition(":")[2],
            "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1",
            "--default-artifact-root", str(folder / "artifacts"),
        ]  # fmt: skip
        environment = {
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        }
        self._server = serve(words, f"{self._url}/health", folder / "server.log", environment)
        self._begin(self._url)

    def _begin(self, url: str) -> None:
        import mlflow

        self._mlflow = mlflow
        mlflow.set_tracking_uri(url)
        mlflow.set_experiment("bench")
        self._run = mlflow.start_run()

    def log(self, values: dict[str, float], step: int) -> None:
        self._mlflow.log_metrics(values, step=step, synchronous=False)

    def finish(self) -> None:
        self._mlflow.flush_async_logging()
        self._mlflow.end_run()

    def read(self, name: str) -> tuple[int, int]:
        asked = {"run_ids": self._run.info.run_id, "metric_key": name, "max_results": 2_500}
        url = f"{self._url}/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?{urlencode(asked)}"
        rows = json.loads(fetch(url)).get("metrics", [])
        return len(rows), max((int(row["step"]) for row in rows), default=0)

    def doors(self, count: int) -> dict[str, float]:
        """Milliseconds of a batch of 1,000 metrics, with growing steps and without; seconds of a history as a frame."""
        import pandas  # type: ignore[import-untyped]
        from mlflow.entities import Metric

        self.finish()
        client = self._mlflow.tracking.MlflowClient()
        found: dict[str, float] = {}
        for key, has_steps in (("with_steps", 1), ("without_steps", 0)):
            run = client.create_run(self._run.info.experiment_id).info.run_id
            times = []
            for first in range(0, 100 * count, 100):
                metrics = [
                    Metric(f"metric_{tag}", row / 7, 1_700_000_000_000 + row, row * has_steps)
                    for row in range(first, first + 100)
                    for tag in range(10)
                ]
                began = time.perf_counter()
                client.log_batch(run, metrics)
                times.append(1_000 * (time.perf_counter() - began))
            found |= {key: statistics.median(times), f"{key}_last": statistics.median(times[-10:])}
            if has_steps:
                began = time.perf_counter()
                names = [f"metric_{tag}" for tag in range(10)]
                columns = {name: [one.value for one in client.get_metric_history(run, name)] for name in names}
                if pandas.DataFrame(columns).shape != (100 * count, 10):
                    raise RuntimeError("the history is not whole")
                found |= {"history_s": time.perf_counter() - began, "history_points": 1_000 * count}
        return found

    def stored_bytes(self) -> int:
        return size_of_sqlite(self._folder / "mlflow.db")

    def close(self) -> None:
        if self._server is not None:
            end(self._server)


if __name__ == "__main__":
    main(MLflow)
