"""MLflow: its server on SQLite and its asynchronous client, read as its page reads."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.peers.drive import end, fetch, free_port, main, serve, size_of_sqlite


class MLflow:
    def __init__(self, folder: Path) -> None:
        os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true", GIT_PYTHON_REFRESH="quiet")
        self._folder = folder
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
        import mlflow

        self._mlflow = mlflow
        mlflow.set_tracking_uri(self._url)
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

    def stored_bytes(self) -> int:
        return size_of_sqlite(self._folder / "mlflow.db")

    def close(self) -> None:
        end(self._server)


if __name__ == "__main__":
    main(MLflow)
