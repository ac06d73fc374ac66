"""Kinds of values that fields of a spec hold, and ``field``, which says what the form shows of one."""

import keyword
import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from trainyard.formats.names import hidden_in, without_hidden
from trainyard.spec.problems import show
from trainyard.spec.values import durations

Group = Literal["what", "where", "parallel", "train", "safety"]
Kind = Literal["text", "number", "choice", "bool", "list", "map", "lines", "nodes"]
# Words that pydantic puts into the path of a value that may be a number or a range.
NUMBER, RANGE = "[number]", "[range]"

LONGEST_NAME = 120
NO_LINES = "none"
PRIORITIES = {"high": 75, "normal": 50, "low": 25}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://[^/]?")
_TORCHRUN = re.compile(r"((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|NODE_RANK|ROLE_NAME|MASTER_(ADDR|PORT))")
_RESERVED_PREFIXES = ("TRAINYARD_", "TORCHELASTIC_")


class Part(BaseModel):
    """A map of a spec. Unknown keys are refused, nothing is converted, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Needs(NamedTuple):
    """Condition on another field, else this one is not read: one of ``values``, or a number above ``above``."""

    path: str
    values: tuple[str, ...] = ()
    above: float = 0

    def is_met(self, value: object) -> bool:
        """Say whether ``value`` is what the other field must say. What is not even of its type is not."""
        if self.values:
            return value in self.values
        return type(value) in (int, float) and value > self.above  # type: ignore[operator]  # a number, so it compares

    def __str__(self) -> str:
        return f"{self.path} {' or '.join(self.values) if self.values else f'above {self.above:g}'}"


def field(
    default: Any,
    label: str,
    help: str,
    *,
    group: Group,
    advanced: bool = False,
    kind: Kind | None = None,
    within: tuple[float | None, float | None] = (None, None),
    is_above: bool = False,
    needs: Needs | None = None,
) -> Any:
    """Declare a field with all that form and documentation say about it. The default may be a function of the fields
    above that are valid; ``is_above`` excludes the first limit."""
    extra: dict[str, Any] = {"group": group, "advanced": advanced}
    if needs is not None:
        extra["needs"] = needs._asdict()
    if kind is not None:
        extra["kind"] = kind
    limits: dict[str, Any] = {"gt" if is_above else "ge": within[0], "le": within[1]}
    limits["default_factory" if callable(default) else "default"] = default
    return Field(title=label, description=help, json_schema_extra=extra, **limits)


# Fields of each part of the form, and those that it shows only to who asks for more.
what_field, more_what = partial(field, group="what"), partial(field, group="what", advanced=True)
where_field, more_where = partial(field, group="where"), partial(field, group="where", advanced=True)
parallel_field, more_parallel = partial(field, group="parallel"), partial(field, group="parallel", advanced=True)
train_field, more_train = partial(field, group="train"), partial(field, group="train", advanced=True)
safety_field, more_safety = partial(field, group="safety"), partial(field, group="safety", advanced=True)


def matching(pattern: str, words: str) -> AfterValidator:
    """Return what accepts a text that fits the pattern as a whole."""

    def accept(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {words}, not {show(value)}")
        return value

    return AfterValidator(accept)


def maps_or_lines(read: Callable[[str], object]) -> BeforeValidator:
    """Return what accepts maps, and their lines as the form and the command line write them, or none."""

    def accept(value: object) -> object:
        if value in (NO_LINES, [NO_LINES]):
            return []
        if isinstance(value, str):
            value = [line for line in value.splitlines() if line.strip()]
        if not isinstance(value, list):
            return value
        return [read(one) if isinstance(one, str) else one for one in value]

    return BeforeValidator(accept)


def number_in(text: str) -> float | int | str:
    """Return the number; text that is none stays text, which the spec's rules refuse."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text.strip()[:100]


def _name(value: str) -> str:
    if not value.strip():
        raise ValueError(f"must not be blank, not {show(value)}")
    if any(char in "<>" for char in value) or hidden_in(value):
        raise ValueError(f"must have no control characters, no invisible ones, no < and no >, not {show(value)}")
    return value


def _tag(value: str) -> str:
    """Drop what nobody sees: tags come from scripts, too, which would not know what is wrong with them."""
    seen = without_hidden(value)
    if not seen:
        raise ValueError(f"must have characters that can be seen, not {show(value)}")
    return seen


def _script(value: str) -> str:
    """Accept a path inside the code's folder; empty where the task has a module or a command."""
    path = PurePosixPath(value)
    if not value:
        return value
    if path.is_absolute() or ".." in path.parts or not path.name or "\\" in value:
        raise ValueError(f"must be a path inside the code's folder, such as train.py, not {show(value)}")
    return value


def _module(value: str) -> str:
    if value.endswith(".py") or "/" in value:
        raise ValueError(f"must be a dotted name such as pkg.train, not {show(value)}: a file goes into task.script")
    if value and not all(part.isidentifier() and not keyword.iskeyword(part) for part in value.split(".")):
        raise ValueError(f"must be a dotted name such as pkg.train, not {show(value)}")
    return value


def _command(value: list[str]) -> list[str]:
    if not value:
        return value
    program = value[0]
    if not program.strip() or "\\" in program or program.endswith("/"):
        raise ValueError(f"must begin with a program, not {show(program)}")
    if "/" in program and ".." in PurePosixPath(program).parts:
        raise ValueError(f"must begin with a program that does not lead upwards (..), as {show(program)} does")
    return value


def _interpreter(value: object) -> object:
    """Accept an absolute path, or a name to be looked for on the node's PATH; null and empty are the node's own."""
    if not isinstance(value, str):
        return "" if value is None else value
    path = PurePosixPath(value)
    is_name = "/" not in value and value not in (".", "..") and value == value.strip()
    if any(unicodedata.category(char) == "Cc" for char in value) or not (
        value == "" or is_name or (path.is_absolute() and ".." not in path.parts and path.name)
    ):
        raise ValueError(f"must be an absolute path or a name on the node's PATH, such as python3, not {show(value)}")
    return value


def check_variable(name: str) -> None:
    """Raise ValueError where a rank may not have the variable from its spec."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"must have names of letters, digits and _, not {show(name)}")
    if _TORCHRUN.fullmatch(name) or name.startswith(_RESERVED_PREFIXES):
        raise ValueError(f"must not set {show(name)}, which the node sets itself")


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        check_variable(name)
    return value


def _location(value: str) -> str:
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise ValueError(f"must have no control characters, not {show(value)}")
    if value and "://" in value and not _SCHEME.match(value):
        raise ValueError(f"must be a path, or a URL such as s3://bucket/rows.csv, not {show(value)}")
    if ".." in PurePosixPath(value).parts:
        raise ValueError(f"must not lead upwards (..), as {show(value)} does")
    return value


def _seconds(
    limit_s: float, *, may_be_empty: bool = False, may_be_zero: bool = False, least_s: float = 0.0
) -> BeforeValidator:
    """Return what accepts a duration up to the limit, as text or as a number of seconds, and writes it in one way."""

    def accept(value: object) -> object:
        if type(value) in (int, float):
            value = str(value)
        if may_be_empty and (value is None or value == ""):
            return ""
        if not isinstance(value, str):
            return value
        seconds = durations.seconds_of(value)
        if seconds > limit_s or seconds < least_s or (seconds == 0 and not may_be_zero):
            least = "" if may_be_zero else "more than 0s and "
            least = f"at least {durations.duration(least_s)} and " if least_s else least
            raise ValueError(f"must be {least}at most {durations.duration(limit_s)}, not {show(value)}")
        return durations.duration(seconds)

    return BeforeValidator(accept)


def _auto_or(least: int, most: int) -> BeforeValidator:
    """Return what accepts auto, or a whole number in these limits."""

    def accept(value: object) -> object:
        if value == "auto" or (type(value) is int and least <= value <= most):
            return value
        raise ValueError(f"must be auto or a whole number from {least} to {most:,}, not {show(value)}")

    return BeforeValidator(accept)


def priority_of(value: int | str) -> int:
    """Return it as a number from 0 to 100."""
    return PRIORITIES[value] if isinstance(value, str) else value


def checked_priority(value: object) -> int | str:
    if (isinstance(value, str) and value in PRIORITIES) or (type(value) is int and 0 <= value <= 100):
        return value
    raise ValueError(f"must be a whole number from 0 to 100, high, normal or low, not {show(value)}")


Number = Annotated[  # YAML 1.1 takes 1e-3 (without a dot) for text
    float, BeforeValidator(lambda given: float(given) if isinstance(given, str) and _NUMBER.fullmatch(given) else given)
]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_name)]
_SLUG_WORDS = "made of letters, digits, - and _"
Slug = Annotated[str, Field(min_length=1, max_length=60), matching(r"[A-Za-z0-9_-]+", _SLUG_WORDS)]
SlugOrEmpty = Annotated[str, Field(max_length=60), matching(r"[A-Za-z0-9_-]*", _SLUG_WORDS)]
Tag = Annotated[str, Field(min_length=1, max_length=120), AfterValidator(_tag)]
Location = Annotated[str, Field(max_length=2_000), AfterValidator(_location)]
Priority = Annotated[
    int | str,
    BeforeValidator(checked_priority),
    WithJsonSchema({"anyOf": [{"enum": list(PRIORITIES)}, {"type": "integer", "minimum": 0, "maximum": 100}]}),
]
Column = Annotated[str, Field(min_length=1, max_length=200)]
Sha256 = Annotated[str, matching(r"([0-9a-f]{64})?", "64 digits 0-9 and a-f, or empty")]
Point = Annotated[
    str, Field(max_length=24), matching(r"([a-z0-9]{1,12}@\d{1,10})?", "RUN@STEP, such as 272bay33uw@200, or empty")
]
_Span = Annotated[
    str,
    Field(max_length=40),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": 40}, {"type": "number", "minimum": 0}]}),
]
TimeLimit = Annotated[_Span, _seconds(durations.LONGEST_TIME_S, may_be_empty=True)]
Grace = Annotated[_Span, _seconds(durations.LONGEST_GRACE_S, may_be_zero=True)]
Window = Annotated[_Span, _seconds(durations.LONGEST_TIME_S)]
Backoff = Annotated[_Span, _seconds(durations.LONGEST_PAUSE_S, may_be_zero=True)]
Lease = Annotated[_Span, _seconds(durations.LONGEST_TIME_S, least_s=durations.SHORTEST_LEASE_S)]
Script = Annotated[str, Field(max_length=500), AfterValidator(_script)]
Module = Annotated[str, Field(max_length=500), AfterValidator(_module)]
Argument = Annotated[str, Field(max_length=10_000)]
CommandLine = Annotated[list[Argument], Field(max_length=1_000), AfterValidator(_command)]
Interpreter = Annotated[
    str,
    Field(max_length=500),
    BeforeValidator(_interpreter),
    WithJsonSchema({"anyOf": [{"type": "string", "maxLength": 500}, {"type": "null"}]}),
]
Environment = Annotated[
    dict[str, Annotated[str, Field(max_length=30_000)]], Field(max_length=500), AfterValidator(_environment)
]
Degree = Annotated[
    int | str, _auto_or(1, 1_000_000), WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1}]})
]
StepsOrAuto = Annotated[
    int | str,
    _auto_or(0, 1_000_000_000),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 0, "maximum": 1_000_000_000}]}),
]
