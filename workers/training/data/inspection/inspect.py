"""Content of files, for people: ``python -m workers.training.data.inspection.inspect`` on a node, stdin to stdout.

It reads ``{"recipe": …, "data": {…}}``, where data is ``task.data`` of a spec, and prints ``{"facts": {…}}`` or
``{"problem": sentence}``. Statistics are of the first 100,000 rows, which the facts then say; sizes, the digest and,
where it is cheap, the number of rows are of all. It opens what users bring, so it runs in a process of its own.
"""

import base64
import io
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, cast

import msgspec
import numpy as np
from PIL import Image

from trainyard.contract.base import prepared
from trainyard.contract.inspections import Cell, ClassFacts, ColumnFacts, DatasetFacts
from trainyard.grouping import grouped
from trainyard.spec.sections.data import ImageData, TextData
from workers.training.data.problems import DataProblem
from workers.training.data.sources import images
from workers.training.data.sources.files import SUFFIXES, Files, content_digest, find_files
from workers.training.data.sources.text import JsonLines
from workers.training.data.storage.npz_arrays import Array
from workers.training.data.tabular.columns import Column, Table, look_at
from workers.training.data.tabular.features import MAX_CLASSES, Targets, read_features, read_targets
from workers.training.data.tabular.tables import open_columns, open_table

# Contents of a table: its columns with their statistics, its first rows, and what is learnt of it.

SHOWN_ROWS = 30
SHOWN_COLUMNS = 50  # of the rows
MAX_COLUMNS = 300
MAX_DISTINCT = 1_000  # that are counted
MAX_NAME_CHARS = 200  # as many as a spec's target may have


def describe_table(files: Files, request: "InspectionRequest") -> DatasetFacts:
    """Return the facts of a table. Without a target they do not name what is learnt."""
    source, target = request.source, request.target
    table = open_table(source, files, target) if target else open_columns(source, files)
    columns = look_at(table, [MAX_CLASSES if name == target else MAX_DISTINCT for name in table.names], SAMPLED_ROWS)
    num_sampled = columns[0].num_rows
    if not num_sampled:
        raise DataProblem(f"{files.location} has no rows below its columns' names")
    is_sample = num_sampled >= SAMPLED_ROWS
    learnt: DatasetFacts = {}
    if target:
        place = table.names.index(target)
        others = [*columns[:place], *columns[place + 1 :]]
        if not (is_sample and _has_one_value(columns[place])):  # the rows may be in the order of their classes
            learnt = _learnt(read_targets(table, columns[place], files.location), others, files.location)
        if len(columns) > SHOWN_COLUMNS:  # the target is shown, however many there are
            columns = [columns[place], *others]
    return {
        "kind": "table",
        "num_rows": table.count_rows() if is_sample else num_sampled,
        "num_columns": len(columns),
        "columns": [_column(column) for column in columns[:MAX_COLUMNS]],
        "rows": _first_rows(table, [column.name for column in columns]),
        "is_sample": is_sample,
        "num_sampled": num_sampled if is_sample else None,
        "target": target or None,
        **learnt,
    }


def _learnt(targets: Targets, others: list[Column], location: str) -> DatasetFacts:
    counted = zip(targets.classes, targets.class_counts, strict=False)  # a quantity has no classes
    classes: list[ClassFacts] = [{"name": name[:MAX_CHARS], "count": count} for name, count in counted]
    return {
        "num_features": read_features(others, location).width,
        "num_classes": len(targets.classes),
        "classes": classes[:MAX_CLASSES_SHOWN],
    }


def _has_one_value(column: Column) -> bool:
    counts = column.words if column.is_text else column.numbers
    return counts is not None and len(counts) == 1


def _column(column: Column) -> ColumnFacts:
    """Return the facts of a column, without those that its kind does not have."""
    counts = column.words if column.is_text else column.numbers
    described: dict[str, Cell | list[Cell]] = {
        "name": column.name[:MAX_NAME_CHARS],
        "type": _type(column),
        "missing": column.num_missing,
        "num_distinct": None if counts is None else len(counts),
        "examples": [_shown(value) for value in column.examples],
    }
    if column.num_numbers and not column.is_words:
        described |= {"min": _shown(column.smallest), "max": _shown(column.largest), "mean": _shown(column.mean)}
    return cast(ColumnFacts, {name: value for name, value in described.items() if value is not None})


def _type(column: Column) -> str:
    if column.is_words:
        return "words"
    if not column.num_numbers:
        return "empty"
    return "whole numbers" if column.are_whole else "numbers"


def _first_rows(table: Table, names: list[str]) -> list[list[Cell]]:
    """Return the first rows as they are in the file, their columns in the order of ``names``."""
    places = [table.names.index(name) for name in names[:SHOWN_COLUMNS]]
    for batch in table.batches():
        columns = [batch.columns[place].slice(0, SHOWN_ROWS).to_pylist() for place in places]
        return [[_shown(cell) for cell in row] for row in zip(*columns, strict=True)]
    return []


def _shown(value: Any) -> Cell:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(f"{value:.6g}")
    shown: Cell = value[:MAX_CHARS] if isinstance(value, str) else value
    return shown


NUM_SHOWN = 24
NUM_TRIED = 300  # that are read, evenly taken, so that most kinds of broken ones are found before a run
SHOWN_SIZE = 48
NUM_COLOURS = 64
MAX_CLASSES_SHOWN = 200
MAX_CHARS = 60
SAMPLED_ROWS = 100_000
SHOWN_CHARS = 3_000
COUNTED_BYTES = 2**30  # of which the lines are counted
BLOCK_BYTES = 2**20
MAX_BYTES = 58_000  # as JSON; the server takes 60,000, with what is around it
SHORTENED = ("images", "rows", "columns", "classes", "text")


def inspect(request: "InspectionRequest") -> DatasetFacts:
    """Return what the files hold. Raises DataProblem for what cannot be trained on."""
    source = request.source
    if source not in SUFFIXES:
        raise DataProblem(f"task.data.source is {source!r}, which is built in; files are of {', '.join(SUFFIXES)}")
    files = find_files(request.location, SUFFIXES[source], request.digest)
    if source == "images":
        found = describe_folder(files, request)
    elif request.recipe == "image-classifier":
        found = describe_arrays(files, request)
    else:
        found = describe_text(files, request) if source in ("text", "jsonl") else describe_table(files, request)
    found |= {"num_files": len(files.paths), "size_bytes": files.size_bytes, "digest": content_digest(files)}
    return fitted(cast(DatasetFacts, {name: value for name, value in found.items() if value is not None}))


def fitted(facts: DatasetFacts) -> DatasetFacts:
    """Return the facts with as much of their longest lists as MAX_BYTES have room for."""
    while len(json.dumps(facts)) > MAX_BYTES:
        parts: dict[str, Any] = {name: facts.get(name) for name in SHORTENED if facts.get(name)}
        longest = max(parts, key=lambda name: len(json.dumps(parts[name])))
        facts = cast(DatasetFacts, {**facts, longest: parts[longest][: len(parts[longest]) * 3 // 4]})
    return facts


def main() -> None:
    question = json.load(sys.stdin)
    try:
        answer: object = {"facts": inspect(InspectionRequest.of(question["recipe"], question["data"]))}
    except DataProblem as problem:
        answer = {"problem": str(problem)}
    json.dump(answer, sys.stdout, allow_nan=False)


# Facts of text: how it begins, and its size.


def describe_text(files: Files, request: "InspectionRequest") -> DatasetFacts:
    """Return the facts of text. Of JSON lines, the first SAMPLED_ROWS are read."""
    if not files.size_bytes:
        raise DataProblem(f"{files.location} is empty: there is no text to learn from")
    if request.source == "text":
        return {"kind": "text", "text": _start_of_files(files), "tokens": files.size_bytes}
    shown, num_bytes, num_read = "", 0, 0
    for text in islice(JsonLines(files, request.text_field).texts(), SAMPLED_ROWS):
        shown = shown if len(shown) >= SHOWN_CHARS else f"{shown}{text}\n"
        num_bytes += len(text.encode(errors="surrogatepass"))
        num_read += 1
    if not num_read:
        raise DataProblem(f"{files.location} has no line: each is a JSON object with the text")
    is_sample = num_read == SAMPLED_ROWS
    return {
        "kind": "text",
        "text": shown[:SHOWN_CHARS],
        "num_rows": _num_lines(files) if is_sample else num_read,
        "tokens": None if is_sample else num_bytes,
        "is_sample": is_sample,
        "num_sampled": num_read if is_sample else None,
    }


def _start_of_files(files: Files) -> str:
    shown = ""
    for path in files.paths:
        with path.open("rb") as file:
            shown += file.read(4 * SHOWN_CHARS).decode(errors="replace")
        if len(shown) >= SHOWN_CHARS:
            break
    return shown[:SHOWN_CHARS]


def _num_lines(files: Files) -> int | None:
    """Return the number of lines, which are the rows but for empty ones; None where counting would take long."""
    if files.size_bytes > COUNTED_BYTES:
        return None
    number = 0
    for path in files.paths:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                number += block.count(b"\n")
    return number


# Facts of images: how many there are of each class, and some of them, small.


def describe_folder(files: Files, request: "InspectionRequest") -> DatasetFacts:
    """Return the facts of a folder of images."""
    classes, num_channels = images.classes_of(files), images.num_channels_of(files)
    tried = set(range(0, len(files.paths), max(1, len(files.paths) // NUM_TRIED)))
    chosen = _some_of_each(classes)
    pictures = {}
    for index in sorted(tried | set(chosen)):
        path = files.paths[index]
        pictures[index] = images.read_picture(path, files.name_of(path), SHOWN_SIZE, num_channels)
    return {
        **_counts(classes),
        "num_rows": len(files.paths),
        "channels": num_channels,
        "image_size": request.image_size,
        "images": [{"class": classes[index][:MAX_CHARS], "png": _png(pictures[index])} for index in chosen],
        "is_sample": len(tried) < len(files.paths),
        "num_sampled": len(tried) if len(tried) < len(files.paths) else None,
    }


def describe_arrays(files: Files, request: "InspectionRequest") -> DatasetFacts:
    """Return the facts of images in NPZ files; those that are shown are of the first rows."""
    pairs, (channels, size, _), answers = images.open_all_arrays(files)
    classes = [str(value) for value in answers.tolist()]
    first = images.channels_first(next(pairs[0][0].blocks(), np.empty((0, *pairs[0][0].shape[1:]), np.uint8)))
    chosen = _some_of_each(classes[: len(first)])
    return {
        **_counts(classes),
        "num_rows": len(classes),
        "channels": channels,
        "image_size": size,
        "images": [{"class": classes[index][:MAX_CHARS], "png": _png(first[index])} for index in chosen],
    }


def _counts(classes: Sequence[str]) -> DatasetFacts:
    counted = Counter(classes)
    return {
        "kind": "images",
        "num_classes": len(counted),
        "classes": [{"name": name[:MAX_CHARS], "count": counted[name]} for name in sorted(counted)[:MAX_CLASSES_SHOWN]],
    }


def _some_of_each(classes: Sequence[str]) -> list[int]:
    """Return the places of up to NUM_SHOWN rows, in turn of each class."""
    by_class = grouped((name, index) for index, name in enumerate(classes))
    turns = zip_longest(*(by_class[name] for name in sorted(by_class)))
    places = (index for turn in turns for index in turn if index is not None)
    return list(islice(places, NUM_SHOWN))  # whoever has room for fewer still has some of each


def _png(values: Array) -> str:
    """Return (channels, size, size) as a small PNG in base64, with a palette: a third of the bytes."""
    image = Image.fromarray(values[0] if len(values) == 1 else np.ascontiguousarray(values[:3].transpose(1, 2, 0)))
    image.thumbnail((SHOWN_SIZE, SHOWN_SIZE))
    if image.mode == "RGB":
        image = image.quantize(NUM_COLOURS)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


@dataclass(frozen=True, slots=True)
class InspectionRequest:
    """``recipe`` and the fields of ``task.data``; with an empty ``target`` the facts do not name what is learnt."""

    recipe: str
    source: str
    location: str
    digest: str = ""
    target: str = ""
    text_field: str = TextData.model_fields["text_field"].default
    image_size: int = ImageData.model_fields["image_size"].default

    @classmethod
    def of(cls, recipe: str, data: Mapping[str, object]) -> "InspectionRequest":
        """Return the request for ``task.data``, of which other fields are ignored.

        Raises ValueError for a value of another type, and for a source or a location that is missing.
        """
        return msgspec.convert({**data, "recipe": recipe}, prepared(cls))


if __name__ == "__main__":
    main()
