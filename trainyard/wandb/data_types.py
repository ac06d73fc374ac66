"""W&B's media, tables and plots, as what Trainyard keeps; and its words about what Trainyard does not keep."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import SimpleNamespace
from typing import Any

from trainyard.formats import media
from trainyard.formats.arrays import numpy_or_none
from trainyard.sdk.warning import WarnOnce

__all__ = [
    "AlertLevel", "Artifact", "Audio", "Graph", "Histogram", "Html", "Image", "Molecule", "Object3D", "Plotly",
    "Settings", "Table", "Unsupported", "Video", "plot", "plot_table",
]  # fmt: skip
warn = WarnOnce()
ONLY_KEPT_THERE = "is not kept by Trainyard; it stays where it is"


class Unsupported(NotImplementedError):
    """A name of W&B that has no counterpart, and whose result the script needs."""


def refused(name: str, instead: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"wandb.{name}: Trainyard has no counterpart of it. {instead}")

    return refuse


def left_out(name: str, why: str = ONLY_KEPT_THERE) -> Callable[..., None]:
    def leave_out(*arguments: Any, **__: Any) -> None:
        given = [one for one in arguments if isinstance(one, str | os.PathLike | Artifact)]
        what = str(given[-1]) if given else "what it was given"
        warn(name, f"wandb.{name}: {what} {why}")

    return leave_out


def unknown(where: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if value is not None and value is not False:
            warn(f"{where}.{name}", f"wandb.{where}: {name}={value!r:.60} has no counterpart in Trainyard")


class AlertLevel(Enum):
    """Levels of an alert."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


def Settings(**options: Any) -> dict[str, Any]:
    """Return the settings, each of which ``init`` says that it has no counterpart of."""
    return options


def Image(data_or_path: Any, mode: str | None = None, caption: str | None = None, grouping: Any = None,
          classes: Any = None, boxes: Any = None, masks: Any = None,
          file_type: str | None = None) -> media.Image:  # fmt: skip
    """Return a picture. Boxes and masks over it are not kept."""
    told = {"mode": mode, "grouping": grouping, "classes": classes, "boxes": boxes, "masks": masks}
    unknown("Image", told)
    return media.Image(data_or_path, caption or "", file_type)


def Audio(data_or_path: Any, sample_rate: int | None = None, caption: str | None = None) -> media.Audio:
    """Return a sound."""
    return media.Audio(data_or_path, sample_rate, caption or "")


def Video(
    data_or_path: Any, caption: str | None = None, fps: float | None = None, format: str | None = None
) -> media.Video:
    """Return a video. Frames become a GIF, whatever ``format`` says."""
    return media.Video(data_or_path, fps or 4, caption or "", channels_first=True)


def Histogram(sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> media.Histogram:
    """Return the distribution of the values, or of ``numpy.histogram``'s counts and edges."""
    if np_histogram is not None:
        return media.Histogram(counts=np_histogram[0], edges=np_histogram[1])
    return media.Histogram(sequence, bins=num_bins)


def Html(data: Any, inject: bool = True, data_is_not_path: bool = False) -> media.Html:
    """Return a page, which is shown in a frame in which no script runs."""
    return media.Html(data + "\n" if data_is_not_path else data)  # what ends in .html is taken for a path


class Table:
    """Rows under the names of columns, which grow until they are logged. Media in cells become the word for them."""

    def __init__(self, columns: Iterable[Any] | None = None, data: Any = None, rows: Any = None, dataframe: Any = None,
                 **other: Any) -> None:  # fmt: skip
        unknown("Table", {k: v for k, v in other.items() if k not in ("dtype", "optional", "allow_mixed_types")})
        frame = dataframe if dataframe is not None else data if hasattr(data, "columns") else None
        if frame is not None:
            columns, data = list(frame.columns), frame.to_numpy().tolist()
        self.columns = [str(one) for one in columns or ("Input", "Output", "Expected")]
        given = data if data is not None else rows if rows is not None else ()
        self.data: list[list[Any]] = [list(row) for row in given]

    def add_data(self, *row: Any) -> None:
        if len(row) != len(self.columns):
            raise ValueError(f"This table expects {len(self.columns)} columns: {self.columns}, found {len(row)}")
        self.data.append(list(row))

    add_row = add_data

    def add_column(self, name: str, data: Iterable[Any]) -> None:
        values = list(data)
        if self.data and len(values) != len(self.data):
            raise ValueError(f"Expected length {len(self.data)}, found {len(values)}")
        self.data = [[*row, value] for row, value in zip(self.data or [[]] * len(values), values, strict=True)]
        self.columns.append(name)

    def get_column(self, name: str, convert_to: str | None = None) -> Any:
        values = [row[self.columns.index(name)] for row in self.data]
        return numpy_or_none().array(values) if convert_to == "numpy" else values

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        yield from enumerate(self.data)

    def kept(self) -> media.Table:
        """Return it as it is now, as Trainyard keeps tables."""
        rows = [[f"[{one.kind}]" if isinstance(one, media.Media) else one for one in row] for row in self.data]
        return media.Table(self.columns, rows)


class Artifact:
    """Files under a name, which Trainyard does not keep: logging it warns."""

    def __init__(self, name: str, type: str, description: str | None = None, metadata: Any = None) -> None:
        self.name, self.type, self.description, self.metadata = name, type, description, metadata

    add_file, add_dir = left_out("Artifact.add_file"), left_out("Artifact.add_dir")
    add_reference, add = left_out("Artifact.add_reference"), left_out("Artifact.add")
    new_file = refused("Artifact.new_file", "Write the file to a folder of the run.")

    def __str__(self) -> str:
        return f"the artifact {self.name!r}"


class _Unkept:
    """A medium that a run cannot keep."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def _unkept(kind: str) -> Callable[..., _Unkept]:
    return lambda *_, **__: _Unkept(kind)


Object3D, Molecule, Plotly, Graph = (_unkept(kind) for kind in ("Object3D", "Molecule", "Plotly", "Graph"))


def loggable(value: Any) -> Any:
    """Return what ``Run.log`` of Trainyard takes for it."""
    if isinstance(value, Table):
        return value.kept()
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):  # a frame of pandas
        return Table(dataframe=value).kept()
    if isinstance(value, _Unkept) or type(value).__module__.startswith("plotly."):
        kind = value.kind if isinstance(value, _Unkept) else "Plotly"
        return media.Text(f"A {kind} was logged here, which Trainyard does not keep.")
    if isinstance(value, Mapping):
        return {name: loggable(one) for name, one in value.items()}
    if callable(getattr(value, "savefig", None)):  # a figure of Matplotlib's
        return media.Image(value)
    if not isinstance(value, str | media.Media) and getattr(value, "shape", ()) not in ((), (1,)):
        return media.Histogram(value)
    return value


def _confusion_matrix(probs: Any = None, y_true: Any = None, preds: Any = None, class_names: Any = None,
                      title: str = "", split_table: bool = False) -> Table:  # fmt: skip
    found = list(preds) if preds is not None else [max(range(len(one)), key=one.__getitem__) for one in probs]
    true = list(y_true)
    names = list(class_names) if class_names is not None else sorted({*true, *found})
    if class_names is not None:  # they are indexes into the names
        true, found = [names[one] for one in true], [names[one] for one in found]
    counts = Counter(zip(true, found, strict=True))
    rows = [[str(one), str(other), counts[one, other]] for one in names for other in names]
    return Table(["Actual", "Predicted", "nPredictions"], rows)


def _line_series(xs: Any, ys: Any, keys: Any = None, title: str = "", xname: str = "x", **_: Any) -> Table:
    lines = [list(line) for line in ys]
    several = list(xs)
    if not several or not hasattr(several[0], "__iter__"):
        several = [several] * len(lines)
    names = list(keys) if keys is not None else [f"line_{index}" for index in range(len(lines))]
    given = zip(names, several, lines, strict=True)
    rows = [[x, name, y] for name, one, line in given for x, y in zip(one, line, strict=True)]
    return Table([xname, "lineKey", "lineVal"], rows)


def _as_it_is(table: Table, *_: Any, **__: Any) -> Table:
    return table


plot = SimpleNamespace(
    line=_as_it_is, bar=_as_it_is, scatter=_as_it_is, histogram=_as_it_is, line_series=_line_series,
    confusion_matrix=_confusion_matrix, plot_table=lambda vega_spec_name, data_table, *_, **__: data_table,
    roc_curve=_unkept("roc_curve"), pr_curve=_unkept("pr_curve"),
)  # fmt: skip
plot_table = plot.plot_table
