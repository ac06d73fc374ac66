"""Source of a recipe's rows: a set that every node has built in, a file or folder, or a dataset of the project."""

from typing import Any, Literal

from trainyard.spec.values.fields import Column, Location, Needs, Part, Sha256, SlugOrEmpty, field

SOURCE = "task.data.source"

# Sources that need a place to read from; all others are built in.
DIGITS_SIZE = 8  # pixels of a side of the built-in digits
QUANTITIES = ("diabetes",)  # the built-in tables whose target is no class
LOCATED = ("text", "jsonl", "npz", "csv", "parquet", "images")


def source_field(default: str, help: str) -> Any:
    return field(default, label="Data", help=help, group="what")


class Data(Part):
    """Fields that all recipes have for their data. Each narrows ``source`` to what it can read."""

    source: str
    location: Location = field(
        "",
        label="Location",
        help="A file or folder on every node, or a URL such as s3://bucket/rows.csv.",
        group="what",
        needs=Needs(SOURCE, LOCATED),
    )
    dataset: SlugOrEmpty = field(
        "",
        label="Dataset",
        help="A dataset of the project; its source, location and digest take the place of those here.",
        group="what",
    )
    digest: Sha256 = field(
        "",
        label="Digest",
        help="SHA-256 that the content must have; empty takes what is there.",
        group="what",
        advanced=True,
        needs=Needs(SOURCE, LOCATED),
    )


class TextData(Data):
    """Text to continue."""

    source: Literal["python-stdlib", "text", "jsonl"] = source_field(
        "python-stdlib", "The rows that are learnt from: built in, or files of a kind."
    )
    text_field: Column = field(
        "text",
        label="Text field",
        help="Of each line of a JSONL file, the field that holds the text.",
        group="what",
        advanced=True,
        needs=Needs(SOURCE, ("jsonl",)),
    )
    tokens: Literal["bytes", "bpe"] = field(
        "bytes", label="Tokens", help="bytes, or pairs of them that were merged (BPE).", group="what"
    )
    vocabulary: int = field(
        1024,
        label="Vocabulary",
        help="Number of BPE tokens.",
        group="what",
        minimum=257,
        maximum=262_144,
        needs=Needs("task.data.tokens", ("bpe",)),
    )


class ImageData(Data):
    """Images and the class of each."""

    source: Literal["digits", "images", "npz"] = source_field(
        "digits", "The rows that are learnt from: built in, or files of a kind."
    )
    image_size: int = field(
        32,
        label="Image size",
        help="Pixels of a side, to which the files of a folder are scaled.",
        group="what",
        minimum=4,
        maximum=4_096,
        needs=Needs(SOURCE, ("images",)),
    )


class TableData(Data):
    """Rows of numbers, one column of which is to be told from the others."""

    source: Literal["breast-cancer", "iris", "wine", "diabetes", "csv", "parquet", "npz"] = source_field(
        "breast-cancer", "The rows that are learnt from: built in, or files of a kind."
    )
    target: Column = field(
        "target",
        label="Target",
        help="The column that is learnt: whole numbers or words are classes, other numbers a quantity.",
        group="what",
        needs=Needs(SOURCE, ("csv", "parquet", "npz")),
    )
