"""A run in the words of its script, and its configuration as it is read from its spec. Pure.

Of a recipe it is the ``train`` part. Of a script it stands on its command line, as argparse takes options
(``--lr 3e-4``, ``--lr=3e-4``, ``--amp``, ``--no-amp``) and as Hydra does (``model.width=64``): dots lead deeper, and
dashes inside a name are underscores, as in the program. Nobody runs the program to find out, so its defaults are not
known, and a word that stands alone is no option.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.formats.names import without_hidden

NOTE = "note"  # the code of the event that is a person's note at a step
MAX_STEP_NOTE, MOST_STEP_NOTES = 500, 1_000  # characters of one; of a run
MAX_NOTES = 100_000  # characters
MAX_BYTES = 1_048_576  # of a configuration, as JSON
_OPTION = re.compile(r"--?(?P<name>[A-Za-z_][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_OVERRIDE = re.compile(r"\+{0,2}(?P<name>[A-Za-z_][\w./@-]*)=(?P<value>.*)", re.DOTALL)
_WHOLE = re.compile(r"[-+]?\d{1,300}")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class RunDescription:
    """A run in the words of its script; what is None stays as it is, and ``config`` adds to what is there."""

    config: JsonObject | None = None
    tags: list[str] | None = None
    notes: str | None = None
    group: str | None = None  # this and the next: of a run that was logged elsewhere
    job_type: str | None = None


def clean_tags(tags: Iterable[str]) -> list[str]:
    """Return the tags as they are kept: empty ones, repeats and characters that nobody sees are dropped."""
    return list(dict.fromkeys(filter(None, (without_hidden(tag).strip()[:60] for tag in tags))))[:50]


def config_of(spec: JsonObject) -> JsonObject:
    """Return the configuration of a run that is launched with this spec."""
    task = spec.get("task", {})
    if "recipe" in task:
        return dict(spec.get("train") or {})
    return read_command_line([*(task.get("command") or ()), *(task.get("arguments") or ())])


def read_command_line(words: Sequence[str]) -> JsonObject:
    """Return the options on a command line; of one that comes twice, the last."""
    found: JsonObject = {}
    place = 0
    while place < len(words) and words[place] != "--":
        word, place = words[place], place + 1
        if option := _OPTION.fullmatch(word):
            if option["value"] is not None:
                _put(found, option["name"], _typed(option["value"]))
                continue
            first = place
            while place < len(words) and not _begins_option(words[place]):
                place += 1
            _put_option(found, option["name"], [_typed(one) for one in words[first:place]])
        elif override := _OVERRIDE.fullmatch(word):
            _put(found, override["name"], _typed(override["value"]))
    return found


def _begins_option(word: str) -> bool:
    return word == "--" or bool(_OPTION.fullmatch(word) or _OVERRIDE.fullmatch(word))


def _put_option(found: JsonObject, name: str, values: Sequence[float | bool | str]) -> None:
    if not values:
        _put(found, name.removeprefix("no-"), not name.startswith("no-"))
    elif len(values) > 1 and all(isinstance(value, int | float) for value in values):
        _put(found, name, list(values))
    else:  # what follows a value is a word of its own, such as the name of a file
        _put(found, name, values[0])


def _put(found: JsonObject, name: str, value: Any) -> None:
    *path, last = [key for key in name.replace("-", "_").split(".") if key] or [name]
    for key in path:
        inner = found.get(key)
        if not isinstance(inner, dict):
            inner = found[key] = {}
        found = inner
    found[last] = value


def _typed(text: str) -> float | bool | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _WHOLE.fullmatch(text):
        return int(text)
    return number if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)) else text


def why_not_kept(document: JsonObject, max_bytes: int = 0) -> str:
    """Return why a document, such as a configuration, cannot be kept; "" where it can. ``max_bytes`` 0: MAX_BYTES."""
    max_bytes = max_bytes or MAX_BYTES
    try:
        num_bytes = len((text := json.dumps(document, ensure_ascii=False, allow_nan=False)).encode())
    except (ValueError, RecursionError):  # NaN, halves of surrogate pairs, brackets without end
        return "this is not JSON that can be kept: a number in it is not finite, or a text is no Unicode"
    if r"\u0000" in text.replace(r"\\", ""):
        return "a text in it has a NUL"
    return f"{num_bytes:,} bytes are more than the {max_bytes:,} that are kept" if num_bytes > max_bytes else ""


class Origin(NamedTuple):
    run: str
    step: int

    def __str__(self) -> str:
        return f"{self.run}@{self.step}"


def origin_of(spec: SpecDocument) -> Origin | None:
    """Return what a resolved spec names in ``checkpoint.restore``; None where it starts anew."""
    run, _, step = str((spec.get("checkpoint") or {}).get("restore") or "").partition("@")
    return Origin(run, int(step)) if run and step.isdecimal() else None
