"""A space as a form has it: a row of texts for each field that varies, and back to the document."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from django.http import QueryDict

from runs.sweeps.analysis.best import text_of
from trainyard.contract.base import JsonObject
from trainyard.spec.values.fields import number_in

PREFIX = "space"
MAX_ENTRIES = 100


class SpaceEntry(NamedTuple):
    """The texts of one field. ``values`` are a choice, with commas between them; a range has the others."""

    path: str
    low: str = ""
    high: str = ""
    log: bool = False
    whole: bool = False
    values: str = ""
    step: str = ""
    when: str = ""  # JSON, which the form keeps and does not show

    def as_document(self) -> JsonObject:
        document: JsonObject = {"values": values_in(self.values)} if self.values.strip() else self._range()
        return document | ({"when": json.loads(self.when)} if self.when else {})

    def _range(self) -> JsonObject:
        texts = {"low": self.low, "high": self.high, "step": self.step}
        found: JsonObject = {name: number_in(text) for name, text in texts.items() if text.strip()}
        return found | ({"log": True} if self.log else {}) | ({"int": True} if self.whole else {})


def entries_of(space: Mapping[str, JsonObject]) -> list[SpaceEntry]:
    return [
        SpaceEntry(
            path=path,
            log=bool(one.get("log")),
            whole=bool(one.get("int")),
            values=", ".join(map(_written, one.get("values") or [])),
            when=json.dumps(one["when"]) if one.get("when") else "",
            **{name: f"{one[name]:.12g}" for name in ("low", "high", "step") if one.get(name) is not None},
        )
        for path, one in space.items()
    ]


def space_in(post: QueryDict) -> tuple[JsonObject, list[SpaceEntry]]:
    """The space that was sent, and its rows as they were typed."""
    rows = [_row(post, path) for path in dict.fromkeys(post.getlist("vary")) if path.strip()][:MAX_ENTRIES]
    return {one.path: one.as_document() for one in rows}, rows


def _row(post: QueryDict, path: str) -> SpaceEntry:
    def text(part: str) -> str:
        return post.get(f"{PREFIX}:{part}:{path}", "")

    return SpaceEntry(
        path=path.strip()[:200],
        log=bool(text("log")),
        whole=bool(text("whole")),
        when=_kept(text("when")),
        **{part: text(part) for part in ("low", "high", "values", "step")},
    )


def values_in(text: str) -> list[object]:
    """The values between the commas: numbers, true, false and lists as JSON has them, anything else as text."""
    try:
        whole = json.loads(f"[{text}]")
    except (ValueError, RecursionError):
        return [plain(part.strip()) for part in text.split(",") if part.strip()]
    return list(whole)


def plain(text: str) -> object:
    """Return what the text is in JSON; text that is none stays text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written(value: object) -> str:
    """The value as ``values_in`` reads it again."""
    text = text_of(value)
    return json.dumps(value) if isinstance(value, str) and (plain(text) != value or "," in text) else text


def _kept(text: str) -> str:
    """A condition that the form carried along; what is no JSON object is dropped."""
    found = plain(text[:2000]) if text else None
    return json.dumps(found) if isinstance(found, dict) else ""
