"""The valid facts about a dataset from a node. They are checked, since pages show them and nodes are not trusted."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal, cast

from ninja import Schema
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from runs.ingest.validation.rules import storable
from trainyard.contract.inspections import DatasetFacts as FactsDocument
from trainyard.formats.pictures import PNG_SIGNATURE, size_of

MAX_SIDE = 64  # pixels of a thumbnail
MAX_PNG_BYTES = 20_000
MAX_COUNT = 2**53


def clean(value: Any) -> Any:
    """Text as a database keeps it: no NUL, and no half of a character."""
    return storable(value).encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _picture(text: str) -> str:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("a picture is base64") from error
    size = size_of(data) if data.startswith(PNG_SIGNATURE) and len(data) <= MAX_PNG_BYTES else None
    if size is None or max(size) > MAX_SIDE:
        raise ValueError(f"a picture is a PNG of at most {MAX_SIDE} x {MAX_SIDE} pixels")
    return base64.b64encode(data).decode()


Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Clean = Annotated[str, BeforeValidator(clean)]
Text = Annotated[Clean, Field(max_length=400)]
Cell = Text | int | float | bool | None


class Part(Schema):
    """Unknown fields are ignored, so that a newer node may send more."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class Column(Part):
    name: Text
    type: Text = ""
    missing: Count | None = None
    min: Cell = None
    max: Cell = None
    mean: float | None = None
    num_distinct: Count | None = None
    examples: list[Cell] = Field(default_factory=list, max_length=20)


class ClassCount(Part):
    name: Text
    count: Count


class Picture(Part):
    label: Text = Field("", alias="class")
    png: Annotated[str, Field(max_length=2 * MAX_PNG_BYTES), AfterValidator(_picture)]


class DatasetFacts(Part):
    """What a node found in a dataset; which fields there are depends on the kind."""

    kind: Literal["text", "table", "images"]
    num_rows: Count | None = None
    num_files: Count | None = None
    size_bytes: Count | None = None
    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    num_columns: Count | None = None
    num_features: Count | None = None  # what a model sees of a row
    num_classes: Count | None = None  # 0: a quantity is learnt
    channels: Count | None = None
    image_size: Count | None = None
    columns: list[Column] = Field(default_factory=list, max_length=500)
    classes: list[ClassCount] = Field(default_factory=list, max_length=1_000)
    rows: list[list[Cell]] = Field(default_factory=list, max_length=30)
    text: Annotated[Clean, Field(max_length=3_000)] = ""
    images: list[Picture] = Field(default_factory=list, max_length=24)
    tokens: Count | dict[Text, Cell] | None = None
    target: Text = ""
    is_sample: bool = False  # the statistics are of the first rows alone
    num_sampled: Count | None = None

    def document(self) -> FactsDocument:
        """Return what is kept of it."""
        kept = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return cast(FactsDocument, kept | {"kind": self.kind})
