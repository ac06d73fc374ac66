"""Checks of single settings, shared by engines. Each takes a value and returns what is wrong with it, as the end of a
sentence that begins with the field's name; empty where it is fine."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit

from trainyard.contract.base import BadDocument, JsonObject, WireStruct, convert
from trainyard.spec.values.durations import seconds_of

Check = Callable[..., str]
S = TypeVar("S", bound=WireStruct)
MAX_PATH = 200


class SettingsError(ValueError):
    """Settings of a cluster that the engine does not take: sentences by field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


def read_settings(kind: type[S], document: JsonObject, checks: Mapping[str, Check], label: str) -> S:
    """Return the document as settings of an engine. Raises SettingsError, whose sentences name field and value.
    ``label``: the system's name."""
    unknown = sorted(set(document) - set(kind.__struct_fields__))
    problems = {name: f"{label} has no setting {name!r}." for name in unknown}
    try:
        settings = convert({**document}, kind)
    except BadDocument as error:
        field = str(error).partition(":")[0].partition(".")[0]
        raise SettingsError({**problems, field: f"{error}."}) from error
    for field, check in checks.items():
        if sentence := check(getattr(settings, field)):
            problems[field] = f"{field}: {sentence}."
    if problems:
        raise SettingsError(problems)
    return settings


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


def duration(least_s: float) -> Callable[[str], str]:
    def check(value: str) -> str:
        try:
            seconds = seconds_of(value) if value else least_s
        except ValueError as error:
            return str(error)
        return "" if seconds >= least_s else f"at least {least_s:g} s, not {value!r}"

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
