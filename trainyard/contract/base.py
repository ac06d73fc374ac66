"""The base of all documents, and how their JSON is read: cleaned, checked against the type, errors with their place."""

import json
import math
import os
import re
import threading
from collections.abc import Mapping
from typing import Annotated, Any, NewType, NoReturn, TypeVar

import msgspec

MAX_DEPTH = 50
MAX_BYTES = 64 * 1024 * 1024  # of one document; a node with 10,000 attempts sends a few megabytes
MAX_TRIES = 100  # entries of a mapping that are looked at to name the one that is wrong
MAX_SHOWN = 100  # characters of a wrong value in an error
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]  # Unix time; no calendar has a later one
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # what a database column holds
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Id = Annotated[str, msgspec.Meta(max_length=40)]
Sentence = Annotated[str, msgspec.Meta(max_length=1_000)]
JsonObject = dict[str, Any]  # free-form: a spec as somebody typed it, the evidence of a reason
# A spec as it is kept and sent: the JSON of ``Spec.resolved``, which ``trainyard.spec.read_spec`` reads.
SpecDocument = NewType("SpecDocument", JsonObject)

T = TypeVar("T")


def said(description: str) -> msgspec.Meta:
    """Say of a field what REST's description says of it."""
    return msgspec.Meta(description=description)


PLACE = re.compile(r"(?P<problem>.*) - at (?P<inside>`key(?: in|\[\.\.\.\] in)?` in )?`(?P<path>\$[^`]*)`", re.DOTALL)
STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")


# msgspec 0.22 works out how a type is read when it is first read, and stores what it has so far: a second thread that
# reads the type in that moment ends the process by SIGSEGV. So one thread at a time does it, and no process forks then.
_preparing = threading.Lock()
_prepared: set[Any] = set()
os.register_at_fork(before=_preparing.acquire, after_in_parent=_preparing.release, after_in_child=_preparing.release)


def prepared(kind: T) -> T:
    """Return the type, which every thread may read from now on. Whoever has msgspec read a type asks this first."""
    if kind not in _prepared:
        with _preparing:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)
    return kind


to_builtins = msgspec.to_builtins  # a document as dicts, lists, texts and numbers: what a JSON column takes


class BadMessage(ValueError):
    """A message that is not taken: its seal does not fit, or its content has another shape."""


class BadDocument(BadMessage):
    """A document of another shape than its type says; the message names the field and the value."""


class WireStruct(msgspec.Struct):
    """A document, or a part of one, that crosses a process border. Unknown fields are ignored."""


def encode(document: object) -> str:
    """Return the document as JSON. A text may hold half of a surrogate pair, as the output of a rank may."""
    return json.dumps(to_builtins(document), separators=(",", ":"))


def decode(text: str | bytes, kind: type[T], *, is_secret: bool = False, takes_nan: bool = True) -> T:
    """Return the document in the JSON text. Raises BadDocument, which quotes a wrong value unless it ``is_secret``, and
    nothing else: whatever comes from another machine is read by this function. ``takes_nan``: Python's NaN and Infinity
    are read, and become None."""
    if len(text) > MAX_BYTES:
        raise BadDocument(f"the document: it has {len(text):,} bytes; {MAX_BYTES:,} are read at most")
    try:
        value = json.loads(text, parse_constant=None if takes_nan else _refuse_constant)
        return convert(value, kind, is_secret=is_secret)
    except BadDocument:
        raise
    except (ValueError, RecursionError, MemoryError) as error:  # its sender is broken, or hostile
        raise BadDocument(f"the document: it cannot be read: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def convert(value: object, kind: type[T], *, is_secret: bool = False) -> T:
    """Return plain values (dicts, lists, texts, numbers) as the type, cleaned. Raises BadDocument, which quotes a wrong
    value unless it ``is_secret``."""
    cleaned = clean(value)
    try:
        return msgspec.convert(cleaned, prepared(kind), strict=True)
    except msgspec.ValidationError as error:
        raise BadDocument(problem_in(str(error), cleaned, kind, is_secret=is_secret)) from error


def clean(value: Any, depth: int = 0) -> Any:
    """Return the value without what no database takes: NUL and half of a surrogate pair in a text (a rank's last lines
    may hold anything), and numbers that are not finite, which become None. Raises BadDocument for what is nested too
    deeply."""
    if depth > MAX_DEPTH:
        raise BadDocument(f"the document: it is nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value
        return value.replace("\0", REPLACEMENT).encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {clean(name): clean(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list):
        return [clean(one, depth + 1) for one in value]
    return value


def problem_in(message: str, value: Any, kind: Any, *, is_secret: bool = False) -> str:
    """Return msgspec's message with the field in front, and with the value behind unless it ``is_secret``."""
    found = PLACE.fullmatch(message)
    if found is None:
        return f"the document: {message}{_quoted(value, is_secret)}"
    names: list[str] = []
    for step in STEP.finditer(found["path"]):
        name: str | int | None = step["field"] if step["field"] else int(step["index"]) if step["index"] else None
        if name is None:
            name = _wrong_entry(message, value, names, kind)
        names.append(str(name))
    at = _value_at(value, names)
    return f"{'.'.join(names) or 'the document'}: {found['problem']}{_quoted(at, is_secret)}"


def _wrong_entry(message: str, value: Any, names: list[str], kind: Any) -> str:
    """Return the key of the entry that the message is about: msgspec does not name keys of mappings."""
    entries = _value_at(value, names)
    if isinstance(entries, Mapping):
        for key, one in list(entries.items())[:MAX_TRIES]:
            try:
                msgspec.convert(_with_value(value, names, {key: one}), prepared(kind), strict=True)
            except msgspec.ValidationError as error:
                if str(error) == message:
                    return str(key)
    return "…"


def _value_at(value: Any, names: list[str]) -> Any:
    for name in names:
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def _with_value(value: Any, names: list[str], new: Any) -> Any:
    if not names:
        return new
    first, *rest = names
    if isinstance(value, list):
        place = int(first)
        return [*value[:place], _with_value(value[place], rest, new), *value[place + 1 :]]
    return {**value, first: _with_value(value[first], rest, new)}


def _quoted(value: Any, is_secret: bool) -> str:
    return "" if is_secret else f" (it is {str(value)[:MAX_SHOWN]!r})"
