"""The settings of an engine as fields of a form: texts that people type, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainyard.contract.base import JsonObject

TEXT, NUMBER, LINES, CHOICE, FLAG = "text", "number", "lines", "choice", "flag"
YAML = "yaml"  # a text whose lines keep their indentation
SECRET = "secret"  # kept locked beside the settings, and never shown again
ON = "on"  # what a browser sends for a box that is checked


@dataclass(frozen=True)
class SettingField:
    """``heading``: a group of fields begins with this one. ``choices``: values and their labels, of a CHOICE."""

    name: str
    label: str
    help: str
    kind: str = TEXT
    is_needed: bool = False
    heading: str = ""
    choices: Sequence[tuple[str, str]] = ()
    placeholder: str = ""


def document_of(fields: Sequence[SettingField], texts: Mapping[str, str]) -> JsonObject:
    """Return the settings that the texts mean. A number that is none stays a text, which the engine refuses; None is
    its default. A secret that was left empty is not among them: it stays as it is."""
    document: JsonObject = {}
    for field in fields:
        given = texts.get(field.name, "")
        text = given.strip()
        if field.kind == LINES:
            document[field.name] = [line.strip() for line in text.splitlines() if line.strip()]
        elif field.kind == NUMBER:
            is_number = text.isascii() and text.isdecimal() and len(text) < 10
            document[field.name] = int(text) if is_number else text or None
        elif field.kind == FLAG:
            document[field.name] = text == ON
        elif field.kind == YAML:
            document[field.name] = given.replace("\r\n", "\n").rstrip() + "\n" if text else ""
        elif field.kind != SECRET or text:
            document[field.name] = text
    return document


def texts_of(fields: Sequence[SettingField], document: JsonObject) -> dict[str, str]:
    """Return the texts that show these settings."""
    return {field.name: _text(document.get(field.name, "")) for field in fields if field.kind != SECRET}


def secret_names(fields: Sequence[SettingField]) -> frozenset[str]:
    return frozenset(field.name for field in fields if field.kind == SECRET)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return ON if value else ""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
