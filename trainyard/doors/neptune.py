"""Runs that ``neptune-exporter`` wrote as Parquet, as it says of its schema: a row for each value.

The values of ``sys/`` are about the run, other single ones its configuration, and series keep their paths. What a run
printed, the series ``monitoring/…/stdout`` and ``stderr``, is its log. Files stay where they are.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainyard.contract.base import JsonObject
from trainyard.contract.records import AnyRecord, Stream
from trainyard.doors.gathering import Gathering
from trainyard.doors.importing import ForeignRun, SourceFile
from trainyard.formats.media import Histogram, Text
from trainyard.formats.parameters import put
from trainyard.sdk.buffers import whole_step

FIRST = "_part_0.parquet"
SINGLE = ("float", "int", "string", "bool", "datetime", "string_set")
BATCH = 65_536  # rows
SERIES = {"float_series": "float_value", "string_series": "string_value", "histogram_series": "histogram_value"}


def foreign_runs(root: Path) -> list[ForeignRun]:
    """Return the runs below a folder, by path. Raises OSError, which says what is wrong."""
    found = []
    for path in sorted(root.rglob(f"*{FIRST}")):
        try:
            found.append(_run(path))
        except (KeyError, ValueError) as error:
            raise OSError(f"{path} is no Parquet of neptune-exporter: {error}") from error
    return found


def _run(first: Path) -> ForeignRun:
    stem = first.name.removesuffix(FIRST)
    parts = [first]
    while (part := first.with_name(f"{stem}_part_{len(parts)}.parquet")).exists():
        parts.append(part)
    file = Source(parts)
    return ForeignRun(f"neptune {file.project} {file.run}", file.name, str(first), [file])


class Source(SourceFile):
    """A place is a number of rows of all parts."""

    key = "rows"

    def __init__(self, parts: list[Path]) -> None:
        self._parts = parts
        self.project, self.run = parts[0].parent.name, parts[0].name.removesuffix(FIRST)
        self.end, about = 0, dict[str, Any]()
        for path in parts:
            file = _opened(path)
            self.end += file.metadata.num_rows
            for row in _single_values(file):
                self.project, self.run = row["project_id"], row["run_id"]
                if (value := row[f"{row['attribute_type']}_value"]) is not None:
                    is_time = hasattr(value, "timestamp")
                    about[row["attribute_path"]] = value.timestamp() if is_time else value  # as Unix seconds
        self._about = about
        self.name = str(about.get("sys/name") or about.get("sys/custom_run_id") or self.run)
        self.first_at = about.get("sys/creation_time", math.inf)
        self.last_at = about.get("sys/modification_time", -math.inf)
        self.error = "Neptune says that it failed" if about.get("sys/failed") else ""

    def records(self, gathering: Gathering, start: int, end: int) -> Iterator[AnyRecord]:
        if start == 0:
            self._describe(gathering)
        place = 0
        for path in self._parts:
            for batch in _opened(path).iter_batches(BATCH):
                for row in batch.slice(max(0, start - place), max(0, end - max(start, place))).to_pylist():
                    self._add(gathering, row)
                place += batch.num_rows
                yield from gathering.take()

    def _describe(self, gathering: Gathering) -> None:
        config: JsonObject = {}
        for path, value in self._about.items():
            if not path.startswith("sys/"):
                put(config, path.split("/"), value, path)
        tags = [*self._about.get("sys/tags", ()), *self._about.get("sys/group_tags", ())]
        gathering.describe(config, tags=tags, notes=str(self._about.get("sys/description") or ""))

    def _add(self, gathering: Gathering, row: JsonObject) -> None:
        name, kind = row["attribute_path"], row["attribute_type"]
        if kind in SINGLE:
            return
        at = row["timestamp"].timestamp() if row["timestamp"] else self.first_at
        at = at if math.isfinite(at) else 0.0
        self.last_at = max(self.last_at, at)
        stream: Stream | None = next((one for one in ("stdout", "stderr") if name.endswith(f"/{one}")), None)
        value = row[SERIES[kind]] if kind in SERIES else None
        if kind not in SERIES:
            gathering.refuse(name, f"{kind} stays where it is")
        elif value is None:
            gathering.refuse(name, "a point without a value")
        elif kind == "string_series" and stream and name.startswith("monitoring/"):
            for line in value.splitlines():
                gathering.line(stream, at, line)
        elif (step := whole_step(float(row["step"] or 0))) is None:
            gathering.refuse(name, "at a step that is no whole number")
        elif kind == "float_series":
            gathering.point(name, step, at, value)
        elif kind == "string_series":
            gathering.media(name, step, at, Text(value))
        elif value["type"] != "COUNTING":
            gathering.refuse(name, f"a histogram of the kind {value['type']}, not of counts")
        else:
            gathering.media(name, step, at, Histogram(counts=value["values"], edges=value["edges"]))


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise OSError("Parquet is read by pyarrow: pip install 'trainyard[data]'") from None
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise OSError(f"{path} cannot be read as Parquet: {error}") from error


def _single_values(file: Any) -> Iterator[JsonObject]:
    import pyarrow
    from pyarrow import compute

    kinds = pyarrow.array(SINGLE)
    for batch in file.iter_batches(BATCH):
        yield from batch.filter(compute.is_in(batch.column("attribute_type"), value_set=kinds)).to_pylist()
