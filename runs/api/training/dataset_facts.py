"""What is kept of a node's facts about a dataset. Pages show them, and nodes are not trusted."""

from __future__ import annotations

import base64
import binascii

from ninja.errors import HttpError

from trainyard.contract.inspections import ColumnFacts, DatasetFacts, Picture
from trainyard.formats.pictures import PNG_SIGNATURE, size_of

MAX_SIDE = 64  # pixels of a thumbnail
MAX_PNG_BYTES = 20_000


def kept_facts(facts: DatasetFacts) -> DatasetFacts:
    """Return the facts without what says nothing, each picture checked. Raises HttpError."""
    if "kind" not in facts:
        raise HttpError(422, "facts.kind: it is missing")
    kept: DatasetFacts = {**facts}
    if "columns" in facts:
        kept["columns"] = [_kept_column(one) for one in facts["columns"]]
    if "images" in facts:
        kept["images"] = [_kept_picture(one, f"facts.images.{place}") for place, one in enumerate(facts["images"])]
    for name in [name for name, value in facts.items() if value is None or value is False or value in ("", [])]:
        del kept[name]  # type: ignore[misc]  # mypy knows names of a TypedDict as literals alone
    return kept


def _kept_column(column: ColumnFacts) -> ColumnFacts:
    kept: ColumnFacts = {**column}
    for name in [name for name, value in column.items() if value is None]:
        del kept[name]  # type: ignore[misc]
    return kept


def _kept_picture(picture: Picture, path: str) -> Picture:
    try:
        data = base64.b64decode(picture["png"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise HttpError(422, f"{path}.png: a picture is base64") from error
    size = size_of(data) if data.startswith(PNG_SIGNATURE) and len(data) <= MAX_PNG_BYTES else None
    if size is None or max(size) > MAX_SIDE:
        raise HttpError(422, f"{path}.png: a picture is a PNG of at most {MAX_SIDE} x {MAX_SIDE} pixels")
    return {"label": picture.get("class", ""), "png": base64.b64encode(data).decode()}
