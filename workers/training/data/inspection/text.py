"""Facts of text: how it begins, and its size."""

from __future__ import annotations

from itertools import islice

from trainyard.contract.inspections import DatasetFacts
from workers.training.data.inspection.request import InspectionRequest
from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.sources.text import JsonLines

SAMPLED_ROWS = 100_000
SHOWN_CHARS = 3_000
COUNTED_BYTES = 2**30  # of which the lines are counted
BLOCK_BYTES = 2**20


def describe_text(files: Files, request: InspectionRequest) -> DatasetFacts:
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
