"""Looking into datasets: control asks a node, and the node answers over REST."""

from __future__ import annotations

from typing import Required, TypedDict

from trainyard.contract.base import JsonObject, WireStruct
from trainyard.contract.orders import Locked

Cell = str | int | float | bool | None


class ColumnFacts(TypedDict, total=False):
    """A column of a table. Its kind decides which of the numbers there are."""

    name: Required[str]
    type: str
    missing: int
    min: Cell
    max: Cell
    mean: float | None
    num_distinct: int
    examples: list[Cell]


class ClassFacts(TypedDict):
    name: str
    count: int


# ``class`` as a node sends it, ``label`` as the server keeps it; png is base64.
Picture = TypedDict("Picture", {"class": str, "label": str, "png": Required[str]}, total=False)


class DatasetFacts(TypedDict, total=False):
    """What a node found in a dataset, for people; which fields there are depends on the kind."""

    kind: str  # text, table or images
    num_rows: int | None
    num_files: int
    size_bytes: int
    digest: str
    num_columns: int
    num_features: int  # what a model sees of a row
    num_classes: int  # 0: a quantity is learnt
    channels: int
    image_size: int
    columns: list[ColumnFacts]
    classes: list[ClassFacts]
    rows: list[list[Cell]]
    text: str
    images: list[Picture]
    tokens: int | None
    target: str | None
    is_sample: bool  # the statistics are of the first rows alone
    num_sampled: int | None


class Question(WireStruct):
    """What a node is to look at. It travels locked: the address of data is in it. Control repeats it until the node's
    status lists it."""

    dataset: str  # id
    question: str  # id, another one each time
    recipe: str
    project: str = ""  # name
    data: JsonObject = {}  # all of the spec's task.data


class Inspect(Locked):
    """The command INSPECT; locked is a ``Question``."""

    at: float = 0.0  # Unix seconds


class Answer(WireStruct, omit_defaults=True):
    """What the node found, or the sentence of why it found nothing."""

    question: str
    facts: DatasetFacts | None = None  # MAX_FACTS_BYTES of JSON at most
    problem: str = ""
