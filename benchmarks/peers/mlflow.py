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

JSON = {"Content-Type": "application/json"}


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
        """Milliseconds of a request with 1,000 metrics, with growing steps and without; seconds of a whole history.

        The requests are made before the clock starts: the client takes as long at any server."""
        import pandas  # type: ignore[import-untyped]
        import requests

        self.finish()
        client, url = self._mlflow.tracking.MlflowClient(), self._mlflow.get_tracking_uri()
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {os.environ.get('MLFLOW_TRACKING_TOKEN')}"
        found: dict[str, float] = {}
        names = [f"metric_{tag}" for tag in range(10)]
        for key, has_steps in (("with_steps", 1), ("without_steps", 0)):
            run, times = client.create_run(self._run.info.experiment_id).info.run_id, []
            for first in range(0, 100 * count, 100):
                metrics = [
                    {"key": name, "value": row / 7, "timestamp": 1_700_000_000_000 + row, "step": row * has_steps}
                    for row in range(first, first + 100)
                    for name in names
                ]
                data = json.dumps({"run_id": run, "metrics": metrics})
                began = time.perf_counter()
                answer = session.post(f"{url}/api/2.0/mlflow/runs/log-batch", data, headers=JSON)
                times.append(1_000 * (time.perf_counter() - began))
                answer.raise_for_status()
            found |= {key: statistics.median(times), f"{key}_last": statistics.median(times[-10:])}
            if has_steps:
                began = time.perf_counter()
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
