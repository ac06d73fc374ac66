"""MLflow's language of filters and orders in ours. Pure."""

import operator
import re
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from ninja.errors import HttpError

from trainyard.formats.parameters import typed

_PART = re.compile(
    r"""\s*(?:(?P<kind>\w+)\.)?(?P<key>`[^`]*`|"[^"]*"|[\w./-]+)\s*(?P<sign>!=|>=|<=|=|>|<|I?LIKE\b|(?:NOT\s+)?IN\b)\s*
    (?P<value>'[^']*'|"[^"]*"|\([^()]*\)|[-+\w.]+)\s*(?:\bAND\b|$)""",
    re.VERBOSE | re.IGNORECASE,
)
KINDS = {"metrics": "metric", "parameters": "param", "parameter": "param", "params": "param", "tags": "tag"}
KINDS |= {kind: kind for kind in ("metric", "param", "tag")}
FIELDS = {"run_name": "name", "user_id": "user", "start_time": "created", "end_time": "ended", "status": "status"}
OF_TAGS = {"mlflow.runName": "name", "mlflow.user": "user"}
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "LIKE": lambda held, wanted: fnmatchcase(held, _pattern(wanted)),
    "ILIKE": lambda held, wanted: fnmatchcase(held.lower(), _pattern(wanted.lower())),
}  # fmt: skip
STATUS = {"FINISHED": "SUCCEEDED", "KILLED": "CANCELLED", "SCHEDULED": "QUEUED", "RUNNING": "live"}


def parts_of(text: str) -> Iterator[re.Match[str]]:
    """Yield the comparisons that the filter joins. Raises HttpError for what is none."""
    place = 0
    while place < len(text.rstrip()):
        part = _PART.match(text, place)
        if part is None:
            raise HttpError(422, f"Invalid filter at character {place}: {text[place:]!r:.80} cannot be read.")
        yield part
        place = part.end()


def translated(text: str) -> tuple[str, list[tuple[str, bool, list[str]]]]:
    """Return the filter in our language; and what is asked of MLflow's own tags, which are no tags of the run: a key,
    whether it has one of these texts, and they. Raises HttpError for what cannot be asked."""
    said: list[str] = []
    own: list[tuple[str, bool, list[str]]] = []
    for part in parts_of(text):
        key, sign = part["key"].strip('`"'), " ".join(part["sign"].upper().split())
        if KINDS.get((part["kind"] or "").lower()) != "tag" or not key.startswith("mlflow.") or key in OF_TAGS:
            said.append(_comparison(part))
        elif sign in ("=", "!=", "IN", "NOT IN") and re.fullmatch(r"[\w./-]+", key):
            own.append((key, sign in ("=", "IN"), _texts(part["value"])))
        else:
            raise HttpError(
                422, f"Tags such as mlflow.parentRunId are found by =, !=, IN and NOT IN alone, not {part[0]!r:.80}"
            )
    return " and ".join(said), own


def fitting(text: str, fields: Collection[str], held: Callable[[Any, str, str], Any]) -> Callable[[Any], bool]:
    """Return whether a document fits the filter: it has one of ``fields``, or what ``held`` finds under a kind, such as
    "tag", and a key. What it has not fits nothing. Raises HttpError for another field or comparison."""
    tests: list[tuple[str, str, Callable[[Any, Any], bool], str]] = []
    for part in parts_of(text):
        kind, key = KINDS.get((part["kind"] or "").lower(), ""), part["key"].strip('`"')
        if part["sign"].upper() not in SIGNS or (not kind and key not in fields):
            raise HttpError(422, f"Invalid filter: nothing here is found by {part[0].strip()!r:.80}.")
        tests.append((kind, key, SIGNS[part["sign"].upper()], part["value"].strip("'\"")))

    def fits(one: Any) -> bool:
        for kind, key, compare, wanted in tests:
            has = held(one, kind, key)
            if isinstance(has, int | float) and _number(wanted) is None:
                raise HttpError(422, f"Invalid filter: {key} is a number, and {wanted!r:.80} is none.")
            if has is None or not compare(has, _number(wanted) if isinstance(has, int | float) else wanted):
                return False
        return True

    return fits


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def order(wanted: list[str]) -> str:
    """Return what runs are sorted by, the newest first where nothing is wanted."""
    found = []
    for one in wanted:
        words = re.fullmatch(r"\s*(?:(\w+)\.)?(`[^`]*`|\"[^\"]*\"|\S+)(?:\s+(ASC|DESC))?\s*", one, re.IGNORECASE)
        if words is None:
            raise HttpError(422, f"This is no order of MLflow: {one!r:.80}")
        field = _field((words[1] or "").lower(), words[2].strip('`"'))
        found.append(("-" if (words[3] or "").upper() == "DESC" else "") + field)
    return ",".join(found) or "-created"


def _field(kind: str, key: str) -> str:
    kind = KINDS.get(kind, kind)
    if kind == "metric":
        return quoted(f"summary.{key}.last")
    if kind == "param":
        return quoted(f"config.{key}")
    if kind == "tag" and key in OF_TAGS:
        return OF_TAGS[key]
    if kind not in ("", "attribute", "attributes", "attr", "run") or key not in FIELDS:
        raise HttpError(422, f"Runs have no {f'{kind}.' if kind else ''}{key} that they are found or sorted by.")
    return FIELDS[key]


def _comparison(part: re.Match[str]) -> str:
    kind, key = KINDS.get((part["kind"] or "").lower(), (part["kind"] or "").lower()), part["key"].strip('`"')
    sign, value = " ".join(part["sign"].upper().split()), part["value"]
    texts = _texts(value)
    if sign in ("LIKE", "ILIKE"):
        inner = texts[0].strip("%")
        if "%" in inner or "_" in inner or not texts[0].startswith("%") or not texts[0].endswith("%"):
            raise HttpError(422, f"LIKE takes a part between two %, such as '%part%', not {texts[0]!r:.80}")
        sign, texts = "~", [inner]
    if kind == "tag" and key not in OF_TAGS:
        said = " or ".join(
            f"tag = {quoted(f'{key}={text}')}" if sign != "~" else f"tag ~ {quoted(text)}" for text in texts
        )
        return f"not ({said})" if sign in ("!=", "NOT IN") else f"({said})"
    field = _field(kind, key)
    listed = ", ".join(_value(field, kind, text) for text in texts)
    if sign in ("IN", "NOT IN"):
        return f"{'not ' if sign == 'NOT IN' else ''}{field} in ({listed})"
    return f"{field} {sign} {listed}"


def _texts(value: str) -> list[str]:
    values = re.findall(r"'([^']*)'|\"([^\"]*)\"", value) if value.startswith("(") else [(value.strip("'\""), "")]
    return [one or other for one, other in values]


def _value(field: str, kind: str, text: str) -> str:
    if field == "status":
        return STATUS.get(text.upper(), text)
    if field in ("created", "ended"):
        try:
            return datetime.fromtimestamp(int(text) / 1000, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            raise HttpError(422, f"{text!r:.80} is no time in milliseconds") from None
    is_number = kind == "metric" or (kind == "param" and not isinstance(typed(text), str))
    return text if is_number else quoted(text)


def _pattern(wanted: str) -> str:
    """Return the pattern of SQL's LIKE as one of file names."""
    return re.sub(r"[\[*?]", r"[\g<0>]", wanted).replace("%", "*").replace("_", "?")


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
