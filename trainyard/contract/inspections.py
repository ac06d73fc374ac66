"""Looking into datasets: control asks a node, and the node answers over REST."""

from typing import Annotated, Literal, Required, TypedDict

import msgspec

from trainyard.contract.base import Id, JsonObject, WireStruct
from trainyard.contract.orders import Locked

Text = Annotated[str, msgspec.Meta(max_length=400)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Cell = Text | int | float | bool | None


class ColumnFacts(TypedDict, total=False):
    """A column of a table. Its kind decides which of the numbers there are."""

    name: Required[Text]
    type: Text
    missing: Number | None
    min: Cell
    max: Cell
    mean: float | None
    num_distinct: Number | None
    examples: Annotated[list[Cell], msgspec.Meta(max_length=20)]


class ClassFacts(TypedDict):
    name: Text
    count: Number


# ``class`` as a node sends it, ``label`` as the server keeps it; png is base64.
Picture = TypedDict(
    "Picture",
    {"class": Text, "label": Text, "png": Required[Annotated[str, msgspec.Meta(max_length=40_000)]]},
    total=False,
)


class DatasetFacts(TypedDict, total=False):
    """Content of a dataset as a node found it, for people; which fields there are depends on the kind."""

    kind: Literal["text", "table", "images"]
    num_rows: Number | None
    num_files: Number | None
    size_bytes: Number | None
    digest: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$")]
    num_columns: Number | None
    num_features: Number | None  # what a model sees of a row
    num_classes: Number | None  # 0: a quantity is learnt
    channels: Number | None
    image_size: Number | None
    columns: Annotated[list[ColumnFacts], msgspec.Meta(max_length=500)]
    classes: Annotated[list[ClassFacts], msgspec.Meta(max_length=1_000)]
    rows: Annotated[list[list[Cell]], msgspec.Meta(max_length=30)]
    text: Annotated[str, msgspec.Meta(max_length=3_000)]
    images: Annotated[list[Picture], msgspec.Meta(max_length=24)]
    tokens: Number | None
    target: Text | None
    is_sample: bool  # the statistics are of the first rows alone
    num_sampled: Number | None


class Question(WireStruct):
    """Data that a node is to inspect. The document travels locked: it has the data's address. Control repeats it until
    the node's status lists it."""

    dataset: str  # id
    question: str  # id, another one each time
    recipe: str
    project: str = ""  # name
    data: JsonObject = {}  # all of the spec's task.data


class Inspect(Locked):
    """The command INSPECT; locked is a ``Question``."""

    at: float = 0.0  # Unix seconds


class Answer(WireStruct, omit_defaults=True):
    """Facts that the node found, or the sentence of why it found none."""

    question: Id
    facts: DatasetFacts | None = None  # MAX_FACTS_BYTES of JSON at most
    problem: Annotated[str, msgspec.Meta(max_length=4_000)] = ""
