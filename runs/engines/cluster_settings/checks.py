"""Checks of a cluster's settings, shared by engines. Each takes a value and returns what is wrong with it, in words for
beside the field: without its name and a full stop; empty where it is fine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit

from trainyard.contract.base import BadDocument, JsonObject, WireStruct, convert, to_builtins
from trainyard.spec.values.durations import seconds_of

Check = Callable[..., str]
S = TypeVar("S", bound=WireStruct)
MAX_PATH = 200


class SettingsError(ValueError):
    """Settings of a cluster that the engine does not take: by field a sentence for beside it, with the value."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {words}" for field, words in problems.items()))
        self.problems = {field: _sentence(words) for field, words in problems.items()}


def _sentence(words: str) -> str:
    is_plain = words.partition(" ")[0].isalpha()  # and no path within the value
    return f"{words[:1].upper() + words[1:] if is_plain else words}."


def checked(
    kind: type[S],
    document: JsonObject,
    checks: Mapping[str, Check],
    label: str,
    between: Callable[[S], Mapping[str, str]] = lambda _: {},
) -> JsonObject:
    """Return the settings of an engine with their defaults. Raises SettingsError. ``label``: the system's name;
    ``between``: what is wrong, by field, with values that are fine by themselves."""
    unknown = sorted(set(document) - set(kind.__struct_fields__))
    problems = {name: f"{label} has no setting {name!r}" for name in unknown}
    try:
        settings = convert({**document}, kind)
    except BadDocument as error:
        place, has_place, words = str(error).partition(": ")
        place, words = (place, words) if has_place else ("the document", place)
        field, _, inside = place.partition(".")
        raise SettingsError({**problems, field: f"{inside}: {words}" if inside else words}) from error
    problems |= {field: words for field, check in checks.items() if (words := check(getattr(settings, field)))}
    if problems := problems or dict(between(settings)):
        raise SettingsError(problems)
    kept: JsonObject = to_builtins(settings)
    return kept


def number(least: int, most: int) -> Callable[[int], str]:
    return lambda value: "" if least <= value <= most else f"from {least} to {most}, not {value}"


def text(pattern: re.Pattern[str], words: str, *, is_needed: bool = False) -> Callable[[str], str]:
    """``words`` say what is accepted. An empty text is fine unless one is needed."""

    def check(value: str) -> str:
        is_fine = bool(pattern.fullmatch(value)) if value else not is_needed
        return "" if is_fine else f"{words}, not {value[:100]!r}"

    return check


def path(value: str) -> str:
    is_plain = value.isprintable() and len(value) <= MAX_PATH and PurePosixPath(value).is_absolute()
    return "" if is_plain or not value else f"an absolute path of at most {MAX_PATH} characters, not {value[:100]!r}"


def shared_folder(value: str) -> str:
    return path(value) if value else "a folder that all machines of the cluster share is needed"


def program(value: str) -> str:
    """An interpreter in an image."""
    is_plain = re.fullmatch(r"[A-Za-z0-9/][A-Za-z0-9._/+-]{0,199}", value)
    return "" if is_plain else f"a program's name or path in the image, not {value[:100]!r}"


def lines(pattern: re.Pattern[str], words: str, *, least: int = 0, most: int) -> Callable[[list[str]], str]:
    """``words`` say what each line is."""

    def check(values: list[str]) -> str:
        if not least <= len(values) <= most:
            return f"from {least} to {most} lines, each {words}; not {len(values)}"
        wrong = next((value for value in values if not pattern.fullmatch(value)), None)
        return "" if wrong is None else f"{words} in each line, not {wrong[:100]!r}"

    return check


def duration(least_s: float, most_s: float = math.inf, *, is_needed: bool = False) -> Callable[[str], str]:
    """An empty text is fine unless one is needed."""
    limits = f"at least {least_s:g} s" if most_s == math.inf else f"from {least_s:g} s to {most_s:g} s"

    def check(value: str) -> str:
        if not value and not is_needed:
            return ""
        try:
            seconds = seconds_of(value)
        except ValueError as error:
            return str(error)
        return "" if least_s <= seconds <= most_s else f"{limits}, not {value!r}"

    return check


def server(value: str) -> str:
    """This server's address, or that of another one that is reached by HTTP."""
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        is_fine = parts.scheme in ("http", "https") and parts.hostname and value.isascii() and value.isprintable()
        is_fine = is_fine and " " not in value and parts.port != 0 and len(value) <= MAX_PATH
    except ValueError:
        is_fine = False
    return "" if is_fine else f"an address such as http://host:8000, not {value[:100]!r}"
