"""What files hold, for people: ``python -m workers.training.data.inspection.inspect`` on a node, stdin to stdout.

It reads ``{"recipe": …, "data": {…}}``, where data is ``task.data`` of a spec, and prints ``{"facts": {…}}`` or
``{"problem": sentence}``. Statistics are of the first 100,000 rows, which the facts then say; sizes, the digest and,
where it is cheap, the number of rows are of all. It opens what users bring, so it runs in a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, cast

from trainyard.contract.inspections import DatasetFacts
from workers.training.data.inspection.images import describe_arrays, describe_folder
from workers.training.data.inspection.request import InspectionRequest
from workers.training.data.inspection.table import describe_table
from workers.training.data.inspection.text import describe_text
from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import SUFFIXES, Files, content_digest, find_files, refuse_other_content

MAX_BYTES = 58_000  # as JSON; the server takes 60,000, with what is around it
SHORTENED = ("images", "rows", "columns", "classes", "text")


def inspect(request: InspectionRequest) -> DatasetFacts:
    """Return what the files hold. Raises DataProblem for what cannot be trained on."""
    source = request.source
    if source not in SUFFIXES:
        raise DataProblem(f"task.data.source is {source!r}, which is built in; files are of {', '.join(SUFFIXES)}")
    files = find_files(request.location, SUFFIXES[source])
    refuse_other_content(files, request.digest)
    found = _describer(request)(files, request)
    found |= {"num_files": len(files.paths), "size_bytes": files.size_bytes, "digest": content_digest(files)}
    return fitted(cast(DatasetFacts, {name: value for name, value in found.items() if value is not None}))


def fitted(facts: DatasetFacts) -> DatasetFacts:
    """Return the facts with as much of their longest lists as MAX_BYTES have room for."""
    while len(json.dumps(facts)) > MAX_BYTES:
        parts: dict[str, Any] = {name: facts.get(name) for name in SHORTENED if facts.get(name)}
        longest = max(parts, key=lambda name: len(json.dumps(parts[name])))
        shorter = parts[longest][: len(parts[longest]) * 3 // 4]
        facts = cast(DatasetFacts, {**facts, longest: shorter})
    return facts


def _describer(request: InspectionRequest) -> Callable[[Files, InspectionRequest], DatasetFacts]:
    if request.source == "images":
        return describe_folder
    if request.recipe == "image-classifier":
        return describe_arrays
    return describe_text if request.source in ("text", "jsonl") else describe_table


def main() -> None:
    question = json.load(sys.stdin)
    try:
        request = InspectionRequest.of(question["recipe"], question["data"])
        answer: object = {"facts": inspect(request)}
    except DataProblem as problem:
        answer = {"problem": str(problem)}
    json.dump(answer, sys.stdout, allow_nan=False)


if __name__ == "__main__":
    main()
