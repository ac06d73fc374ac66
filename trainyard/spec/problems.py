"""Problems of a spec, in plain sentences that name the value and what would be accepted."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trainyard.formats.names import visible


class Problem(NamedTuple):
    """One thing that is wrong: the dotted path of the field (empty for the whole) and a sentence about it."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class SpecError(ValueError):
    """The document is no valid spec. ``errors`` has every problem that was found."""

    def __init__(self, errors: Iterable[Problem]) -> None:
        self.errors = list(errors)
        super().__init__("; ".join(map(str, self.errors)))


def show(value: object) -> str:
    """Return ``value`` as a person wrote it, short enough for a sentence."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # a date of YAML, an integer of 10,000 digits, a cycle
        text = f"a {type(value).__name__}"
    text = visible(text)
    return text if len(text) <= 60 else f"{text[:57]}…"


def problems_of(error: ValidationError, accepted_at: dict[str, list[str]]) -> list[Problem]:
    """Return what pydantic found, in our words. ``accepted_at`` has the names of the fields below each path."""
    return [
        Problem(dotted(detail["loc"]), _sentence(detail, accepted_at))
        for detail in error.errors(include_url=False)
        if detail["type"] != "default_factory_not_called"  # follows from another error, which is there too
    ]


def dotted(location: Iterable[int | str]) -> str:
    """Return the path of a field; the markers that pydantic puts behind a map's key, and behind a field of two shapes,
    are left out."""
    return ".".join(str(part) for part in location if part not in ("[key]", "[number]", "[range]"))


def _sentence(detail: ErrorDetails, accepted_at: dict[str, list[str]]) -> str:
    kind, value, context = detail["type"], show(detail["input"]), detail.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        accepted = accepted_at.get(dotted(detail["loc"][:-1]), [])
        return f"is not a field of a spec (its value is {value}); accepted here: {', '.join(accepted)}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        expected = context["expected"].replace("'", "").replace("False", "false")
        return f"must be {expected}, not {value}"
    if kind in _LIMITS:
        words, name = _LIMITS[kind]
        limit = context[name]
        return f"{words} {limit:,}, not {value}" if isinstance(limit, int) else f"{words} {limit:g}, not {value}"
    if kind == "string_type" and isinstance(detail["input"], bool | int | float):
        return f"must be text, not {value}; put it in quotes"
    if kind in _WORDS:
        return f"{_WORDS[kind].format(**context)}, not {value}"
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}, not {value}"


_LIMITS = {
    "greater_than": ("must be more than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
}
_WORDS = {
    "int_type": "must be a whole number", "int_from_float": "must be a whole number", "float_type": "must be a number",
    "finite_number": "must be a finite number", "bool_type": "must be true or false", "string_type": "must be text",
    "string_too_short": "must have at least {min_length} character",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} entries", "too_short": "must name at least {min_length}",
    "list_type": "must be a list", "dict_type": "must be a map", "model_type": "must be a map",
}  # fmt: skip
