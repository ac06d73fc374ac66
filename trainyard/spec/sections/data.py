"""Source of a recipe's rows: a set that every node has built in, a file or folder, or a dataset of the project."""

from typing import Any, Literal

from trainyard.spec.problems import show
from trainyard.spec.values.fields import Column, Location, Needs, Part, Sha256, SlugOrEmpty, more_what, what_field

SOURCE = "task.data.source"

# Sources that need a place to read from; all others are built in.
DIGITS_SIZE = 8  # pixels of a side of the built-in digits
QUANTITIES = ("diabetes",)  # the built-in tables whose target is no class
LOCATED = ("text", "jsonl", "npz", "csv", "parquet", "images")

# Schemes that nodes can fetch from. Others reach more than data, a shell for one.
PROTOCOLS = ("http", "https", "s3", "gs", "gcs", "abfs", "az", "hf", "sftp", "ftp", "memory", "zip", "tar")
ARCHIVED = ("zip", "tar")
WEB = ("http", "https")


def source_field(default: str) -> Any:
    return what_field(default, "Data", "The rows that are learnt from: built in, or files of a kind.")


class Data(Part):
    """Fields that all recipes have for their data. Each narrows ``source`` to what it can read."""

    source: str
    location: Location = what_field(
        "",
        "Location",
        "A file or folder on every node, or a URL such as s3://bucket/rows.csv.",
        needs=Needs(SOURCE, LOCATED),
    )
    dataset: SlugOrEmpty = what_field(
        "", "Dataset", "A dataset of the project; its source, location and digest take the place of those here."
    )
    digest: Sha256 = more_what(
        "", "Digest", "SHA-256 that the content must have; empty takes what is there.", needs=Needs(SOURCE, LOCATED)
    )


class TextData(Data):
    """Text to continue."""

    source: Literal["python-stdlib", "text", "jsonl"] = source_field("python-stdlib")
    text_field: Column = more_what(
        "text",
        "Text field",
        "Of each line of a JSONL file, the field that holds the text.",
        needs=Needs(SOURCE, ("jsonl",)),
    )
    tokens: Literal["bytes", "bpe"] = what_field("bytes", "Tokens", "bytes, or pairs of them that were merged (BPE).")
    vocabulary: int = what_field(
        1024, "Vocabulary", "Number of BPE tokens.", within=(257, 262_144), needs=Needs("task.data.tokens", ("bpe",))
    )


class ImageData(Data):
    """Images and the class of each."""

    source: Literal["digits", "images", "npz"] = source_field("digits")
    image_size: int = what_field(
        32,
        "Image size",
        "Pixels of a side, to which the files of a folder are scaled.",
        within=(4, 4_096),
        needs=Needs(SOURCE, ("images",)),
    )


class TableData(Data):
    """Rows of numbers, one column of which is to be told from the others."""

    source: Literal["breast-cancer", "iris", "wine", "diabetes", "csv", "parquet", "npz"] = source_field(
        "breast-cancer"
    )
    target: Column = what_field(
        "target",
        "Target",
        "The column that is learnt: whole numbers or words are classes, other numbers a quantity.",
        needs=Needs(SOURCE, ("csv", "parquet", "npz")),
    )


def location_problem(location: str) -> str:
    """Return what is wrong with a path or URL of data, a sentence without its end; empty where nothing is."""
    head, is_nested, archive = location.partition("::")
    protocol, is_url, path = head.partition("://")
    if is_nested and protocol in ARCHIVED:
        return location_problem(archive)
    if is_nested or protocol in ARCHIVED:
        return f"{show(location)} names no archive; one is written as zip://folder::/data/all.zip"
    if not is_url:
        return "" if location.startswith("/") else f"{show(location)} is neither a whole path, from / on, nor a URL"
    if protocol == "file":
        return location_problem(path)
    if protocol not in PROTOCOLS:
        return f"{show(location)} begins with {protocol}://; accepted are file, {', '.join(PROTOCOLS)}"
    if protocol in WEB and path.partition("?")[0].endswith("/"):
        return f"{show(location)} is a folder, which a web server has not; name a file or an archive (.zip, .tar) of it"
    return ""
