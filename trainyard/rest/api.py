"""``trainyard.Api``: what is on the server, for notebooks and scripts: runs, and their points as whole tables.

Tables need pyarrow; ``format="pandas"`` and ``"polars"`` need these.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from trainyard.contract.answers import runs as run_answers
from trainyard.contract.base import JsonObject
from trainyard.formats.parameters import leaves
from trainyard.grouping import grouped
from trainyard.rest import answers, config
from trainyard.rest.client import Client
from trainyard.rest.connection import given

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Format = Literal["pandas", "polars", "arrow"]
RUNS_AT_ONCE = 100  # of one request for points
INDEX = ("run", "step", "time")


class Api:
    """The server that ``TRAINYARD_URL`` or ``client.toml`` names, unless ``url`` does. Its methods raise ApiError and
    Unreachable."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        """Raises NotConfigured where no server is known."""
        found = None if url and token else config.load()
        self._client = Client(
            url or (found.url if found else ""),
            token or (found.token if found else ""),
            renew=None if found is None or token else lambda: config.renewed_token(found.url, found.token),
        )
        self._client.close_at_end()

    def runs(
        self, filter: str = "", *, project: str | None = None, sort: str | None = None, archived: bool = False
    ) -> Runs:
        """Return the runs that fit a filter (docs/filters.md), newest first unless ``sort`` says otherwise."""
        asked = {"filter": filter or None, "project": project, "sort": sort, "archived": archived or None}
        return Runs(self._client, given(asked))

    def run(self, id: str) -> ApiRun:
        return ApiRun(self._client, self._client.run_document(id))

    def projects(self) -> list[str]:
        """Return the names of the projects."""
        return [one["name"] for one in self._client.pages("projects", answers.Named)]


@dataclass
class ApiRun:
    """A run as it was when it was asked for; ``document`` is all that REST says of it."""

    _client: Client
    document: run_answers.RunDocument

    @property
    def id(self) -> str:
        return self.document["id"]

    @property
    def url(self) -> str:
        return f"{self._client.url}/runs/{self.id}/"

    def __getattr__(self, name: str) -> Any:
        """Return a field of the document: ``name``, ``status``, ``config``, ``summary``, ``tags``, ``notes``, …"""
        if name.startswith("_") or name not in self.document:
            raise AttributeError(f"a run has no {name!r}; it has {', '.join(sorted(self.document))}")
        return self.document[name]  # type: ignore[literal-required]  # the check is above

    def __repr__(self) -> str:
        return f"<run {self.id} {self.document['name']!r}, {self.document['status']}>"

    def history(self, names: Sequence[str] | str = (), format: Format = "pandas") -> Any:
        """Return every point as a table: a row for each step (of a step that came twice, two), a column for each
        series, ``name`` or ``name{label=value}``. What was not logged at a step is missing."""
        return _table(self._client, [self.id], names, format, is_many=False)

    def scan_history(self, names: Sequence[str] | str = ()) -> Iterator[dict[str, Any]]:
        """Yield the rows of the history as dictionaries, without what is missing."""
        for batch in self.history(names, "arrow").to_batches():
            for row in batch.to_pylist():
                yield {name: value for name, value in row.items() if value is not None}

    def series(self) -> Iterator[run_answers.Series]:
        return self._client.series(self.id)

    def attempts(self) -> Iterator[answers.Attempt]:
        return self._client.attempts(self.id)

    def files(self) -> run_answers.FileList:
        return self._client.file_list(self.id)

    def logs(self, **query: Any) -> answers.LogPage:
        return self._client.logs(self.id, **query)

    def stop(self) -> None:
        self._client.act(self.id, "stop")


class Runs(Sequence[ApiRun]):
    """Runs of a filter, read when they are looked at."""

    def __init__(self, client: Client, asked: Mapping[str, Any]) -> None:
        self._client = client
        self._asked = asked

    @cached_property
    def _found(self) -> list[ApiRun]:
        return [ApiRun(self._client, one) for one in self._client.run_documents(**self._asked)]

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, at: int) -> ApiRun: ...
    @overload
    def __getitem__(self, at: slice) -> list[ApiRun]: ...
    def __getitem__(self, at: int | slice) -> ApiRun | list[ApiRun]:
        return self._found[at]

    def __iter__(self) -> Iterator[ApiRun]:
        if "_found" in self.__dict__:
            return iter(self._found)
        return (ApiRun(self._client, one) for one in self._client.run_documents(**self._asked))

    def __repr__(self) -> str:
        return f"<runs {json.dumps(dict(self._asked))}>"

    def history(self, names: Sequence[str] | str = (), format: Format = "pandas") -> Any:
        """Return every point of all of them as one table, with the column ``run``."""
        return _table(self._client, [run.id for run in self], names, format, is_many=True)

    def summaries(self) -> list[JsonObject]:
        """Return for each run its id, name, status, ``config.<path>`` and ``summary.<series>.<statistic>``: rows of a
        table."""
        return [_flat_run(run.document) for run in self]


def _flat_run(document: run_answers.RunDocument) -> JsonObject:
    row: JsonObject = {name: document[name] for name in ("id", "name", "status")}
    row |= {path: value for path, value in leaves(document["config"], "config.") if value != {}}
    for series, figures in document["summary"].items():
        row |= {f"summary.{series}.{statistic}": value for statistic, value in figures.items()}
    return row


# Points as tables.


@dataclass
class _Series:
    run: str
    name: str
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    values: NDArray[np.float64]


def _table(client: Client, runs: Sequence[str], names: Sequence[str] | str, format: Format, *, is_many: bool) -> Any:
    if format not in get_args(Format):
        raise ValueError(f"history: format={format!r} is none of {', '.join(get_args(Format))}")
    import pyarrow as pa

    wanted = [names] if isinstance(names, str) else list(names)
    parts = []
    for first in range(0, max(1, len(runs)), RUNS_AT_ONCE):
        data = client.whole("series.arrow", name=wanted, run=list(runs[first : first + RUNS_AT_ONCE]))
        parts += [wide(*one) for one in grouped((series.run, series) for series in _series_in(data)).items()]
    whole = pa.concat_tables(parts, promote_options="default") if parts else pa.table({name: [] for name in INDEX})
    table = whole if is_many else whole.drop_columns("run")
    if format == "arrow":
        return table
    if format == "polars":
        import polars

        return polars.from_arrow(table)
    return table.to_pandas()


def _series_in(data: bytes) -> Iterator[_Series]:
    import numpy as np
    import pyarrow as pa

    found: dict[tuple[str, str], list[Any]] = {}
    for batch in pa.ipc.open_stream(io.BytesIO(data)):
        for row in range(batch.num_rows):
            run, name, labels = (batch.column(column)[row].as_py() for column in ("run", "name", "labels"))
            lists = [batch.column(column)[row].values.to_numpy() for column in ("step", "time", "value")]
            found.setdefault((run, column_name(name, json.loads(labels))), []).append(lists)
    for (run, name), stretches in found.items():
        yield _Series(run, name, *(np.concatenate(column) for column in zip(*stretches, strict=True)))


def column_name(name: str, labels: Mapping[str, str]) -> str:
    inside = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return f"{name}{{{inside}}}" if inside else name


def wide(run: str, found: Sequence[_Series]) -> Any:
    """Return the table of one run: its steps upwards, and of a step that a series has several times, each in its
    order."""
    import numpy as np
    import pyarrow as pa

    keys = [_keys(one.steps) for one in found]
    if all(np.array_equal(one.steps, found[0].steps) for one in found[1:]):  # as one call of log has them
        every, places = keys[0], [None] * len(found)
    else:
        every = np.unique(np.concatenate(keys))
        places = [np.searchsorted(every, one) for one in keys]
    times = np.full(every.size, np.inf)
    columns = {}
    for one, place in zip(found, places, strict=True):
        if place is None:
            columns[one.name] = pa.array(one.values, from_pandas=False)
            times = np.minimum(times, one.times)
            continue
        values, is_missing = np.zeros(every.size), np.ones(every.size, bool)
        values[place], is_missing[place] = one.values, False
        times[place] = np.minimum(times[place], one.times)
        columns[one.name] = pa.array(values, mask=is_missing, from_pandas=False)
    steps = every["step"] if every.size else np.zeros(0, np.int64)
    return pa.table({"run": pa.array([run] * every.size, pa.string()), "step": steps, "time": times, **columns})


def _keys(steps: NDArray[np.int64]) -> Any:
    """Return each step with how often it came before."""
    import numpy as np

    keys = np.zeros(steps.size, [("step", np.int64), ("turn", np.int64)])
    keys["step"] = steps
    is_same = np.flatnonzero(steps[1:] == steps[:-1]) + 1  # they come sorted
    for place in is_same:
        keys["turn"][place] = keys["turn"][place - 1] + 1
    return keys
