"""The settings of an engine as fields of a form: texts that people type, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainyard.contract.base import JsonObject

TEXT, NUMBER, LINES = "text", "number", "lines"


@dataclass(frozen=True)
class SettingField:
    name: str
    label: str
    help: str
    kind: str = TEXT
    is_needed: bool = False


def document_of(fields: Sequence[SettingField], texts: Mapping[str, str]) -> JsonObject:
    """Return the settings that the texts mean. A number that is none stays a text, which the engine refuses."""
    document: JsonObject = {}
    for field in fields:
        text = texts.get(field.name, "").strip()
        if field.kind == LINES:
            document[field.name] = [line.strip() for line in text.splitlines() if line.strip()]
        elif field.kind == NUMBER:
            if text:
                document[field.name] = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
        else:
            document[field.name] = text
    return document


def texts_of(fields: Sequence[SettingField], document: JsonObject) -> dict[str, str]:
    """Return the texts that show these settings."""
    return {field.name: _text(document.get(field.name, "")) for field in fields}


def _text(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
