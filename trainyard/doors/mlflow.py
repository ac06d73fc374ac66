"""Runs that MLflow keeps: in a folder ``mlruns``, in SQLite, or behind a server's address.

Each metric of a run is a source of its own, in the order in which it was stored; what is said about the run is another.
Artifacts, traces and models stay where they are.
"""

import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from trainyard.contract.records import AnyRecord
from trainyard.doors.gathering import Gathering
from trainyard.doors.importing import ForeignRun, SourceFile, query_of
from trainyard.formats.parameters import with_params
from trainyard.rest.http_clients import outside_client

NAME, NOTE = "mlflow.runName", "mlflow.note.content"
STATUSES = ("", "RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")  # by the numbers of files
LARGEST = 1.7976931348623157e308  # what databases of MLflow have for infinity
PAGE, POINTS_PAGE = 500, 25_000
TIMEOUT_S = 60.0
Texts = dict[str, str]
Point = tuple[int, float, float]  # step, Unix seconds, value


class MlflowRun(NamedTuple):
    """A run as a store has it; times in milliseconds, None where there is none."""

    id: str
    experiment: str
    status: str
    began: int | None
    ended: int | None
    params: Texts
    tags: Texts
    metrics: list[str]
    points: Callable[[str], list[Point]]  # of a metric

    def sources(self) -> Iterator[SourceFile]:
        yield Source(self, "about", 1 + len(self.params) + len(self.tags) + bool(self.ended), self._describe)
        for name in self.metrics:
            points = self.points(name)
            yield Source(self, f"metric {name}", len(points), partial(_fill, name, points))

    def _describe(self, gathering: Gathering, _start: int, _end: int) -> None:
        tags = [f"{key}={text}" for key, text in self.tags.items() if not key.startswith("mlflow.")]
        config = with_params({}, self.params)
        gathering.describe(config, tags=tags, notes=self.tags.get(NOTE, ""), group=self.experiment)


class Source(SourceFile):
    """A place is a number of points, or of what is said."""

    def __init__(self, run: MlflowRun, key: str, end: int, fill: Callable[[Gathering, int, int], None]) -> None:
        self.key, self.end, self._fill = key, end, fill
        self.first_at = run.began / 1000 if run.began else math.inf
        self.last_at = run.ended / 1000 if run.ended else -math.inf
        self.error = "status FAILED" if run.status == "FAILED" else ""

    def records(self, gathering: Gathering, start: int, end: int) -> Iterator[AnyRecord]:
        self._fill(gathering, start, end)
        yield from gathering.take()


def _fill(name: str, points: list[Point], gathering: Gathering, start: int, end: int) -> None:
    for point in points[start:end]:
        gathering.point(name, *point)


def foreign_runs(store: str) -> list[ForeignRun]:
    """Return the runs of a store that were not deleted, the oldest first. Raises OSError, which says what is wrong."""
    path = Path(store.removeprefix("sqlite:///"))
    if store.startswith(("http://", "https://")):
        found, origin = _of_server(httpx.URL(store.rstrip("/"))), httpx.URL(store).host
    elif path.exists():
        found, origin = (_of_folder(path) if path.is_dir() else _of_database(path)), str(path)
    else:
        raise FileNotFoundError(f"{store} is no folder mlruns, no file of SQLite and no http address")
    runs = sorted(found, key=lambda run: (run.began or 0, run.id))
    return [
        ForeignRun(f"mlflow {run.id}", run.tags.get(NAME, run.id), origin, run.sources(), run.status == "KILLED")
        for run in runs
    ]


def _of_folder(root: Path) -> Iterator[MlflowRun]:
    for path in sorted(root.glob("*/*/meta.yaml")):
        meta, folder = _yaml(path), path.parent
        if meta.get("lifecycle_stage") == "active" and "run_id" in meta:
            status, experiment = meta.get("status"), _yaml(folder.parent / "meta.yaml").get("name")
            known = isinstance(status, int) and 0 <= status < len(STATUSES)
            yield MlflowRun(
                meta["run_id"], str(experiment), STATUSES[status] if known else str(status), meta.get("start_time"),
                meta.get("end_time"), _texts(folder / "params"), _texts(folder / "tags"), _names(folder / "metrics"),
                partial(_lines, folder / "metrics"),
            )  # fmt: skip


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text("utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise OSError(f"{path} is no file of MLflow's: {error}") from error


def _names(folder: Path) -> list[str]:
    """Return the files of a folder by their paths there: a slash in a name makes folders."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _texts(folder: Path) -> Texts:
    return {name: (folder / name).read_text("utf-8", "replace") for name in _names(folder)}


def _lines(folder: Path, name: str) -> list[Point]:
    """Return the points of whole lines: the last one may still be being written."""
    rows = [line.split() for line in (folder / name).read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(row[2]) if len(row) > 2 else 0, int(row[0]) / 1000, float(row[1])) for row in rows]


def _of_database(path: Path) -> Iterator[MlflowRun]:
    """Read a database and write nothing; its points lie in the order in which they came."""

    def query(sql: str, *values: str) -> list[tuple[Any, ...]]:
        return query_of(path, sql, *values)

    def points(own: str, name: str) -> list[Point]:
        columns, order = "step, timestamp, CASE WHEN is_nan THEN NULL ELSE value END", "ORDER BY rowid"
        rows = query(f"SELECT {columns} FROM metrics WHERE run_uuid = ? AND key = ? {order}", own, name)
        return [(step, at / 1000, math.nan if value is None else _value(value)) for step, at, value in rows]

    for own, title, status, began, ended in query(
        "SELECT run_uuid, e.name, status, start_time, end_time FROM runs r JOIN experiments e USING (experiment_id)"
        " WHERE r.lifecycle_stage = 'active'"
    ):
        params, tags = (dict(query(f"SELECT key, value FROM {table} WHERE run_uuid = ?", own))
                        for table in ("params", "tags"))  # fmt: skip
        names = [name for (name,) in query("SELECT DISTINCT key FROM metrics WHERE run_uuid = ? ORDER BY key", own)]
        yield MlflowRun(own, title, status, began, ended, params, tags, names, partial(points, own))


def _of_server(url: httpx.URL) -> Iterator[MlflowRun]:
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    client = outside_client(timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {token}"} if token else {})

    def pages(method: str, path: str, key: str, **asked: Any) -> Iterator[Any]:
        words = {"params": asked} if method == "GET" else {"json": asked}
        while True:
            try:
                answer = client.request(method, f"{url}/api/2.0/mlflow/{path}", **words)  # type: ignore[arg-type]
                found = answer.raise_for_status().json()
            except (httpx.HTTPError, ValueError) as error:
                raise OSError(f"{url} does not answer as a server of MLflow's: {error}") from error
            yield from found.get(key, ())
            if not found.get("next_page_token") or found["next_page_token"] == asked.get("page_token"):
                return
            asked["page_token"] = found["next_page_token"]

    def points(own: str, name: str) -> list[Point]:
        rows = pages("GET", "metrics/get-history", "metrics", run_id=own, metric_key=name, max_results=POINTS_PAGE)
        return [(int(one.get("step", 0)), int(one["timestamp"]) / 1000, _value(float(one["value"]))) for one in rows]

    for experiment in list(pages("POST", "experiments/search", "experiments", max_results=PAGE)):
        own = [experiment["experiment_id"]]
        for run in pages("POST", "runs/search", "runs", experiment_ids=own, max_results=PAGE):
            info, data = run["info"], run["data"]
            params, tags = ({one["key"]: one["value"] for one in data.get(word, ())} for word in ("params", "tags"))
            names = sorted({one["key"] for one in data.get("metrics", ())})
            yield MlflowRun(
                info["run_id"], experiment["name"], info["status"], info.get("start_time"), info.get("end_time"),
                params, tags, names, partial(points, info["run_id"]),
            )  # fmt: skip


def _value(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else value
