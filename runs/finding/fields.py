"""The fields that runs are filtered and sorted by, and the values that they take. Pure."""

import difflib
import math
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple

from runs.finding.language import FilterError, FilterText
from runs.values.status import LIVE, Status
from trainyard.spec import form_fields

FIXED = ("status", "name", "project", "user", "created", "ended", "tag")
CONFIG, SUMMARY, LOCAL = "config.", "summary.", "local."
STATISTICS = ("last", "min", "max", "mean", "best")
GROUPS: dict[str, frozenset[Status]] = {"live": LIVE, "ended": frozenset(Status) - LIVE}
# The last word of the name of a series of which more is better; of others less is.
MORE_IS_BETTER = frozenset(
    ("acc", "accuracy", "auc", "auroc", "bleu", "dice", "f1", "iou", "map", "mfu", "precision", "r2", "recall",
     "return", "reward", "rouge", "score", "throughput")
)  # fmt: skip
NONE = "none"
Cell = float | str | None  # what a run has in a field
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_AGO = re.compile(r"-(\d{1,6})([mhdw])")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


class Field(NamedTuple):
    """``kind`` is one of FIXED, "spec" or "config" with a ``path``, or "summary" with ``series`` and ``statistic``."""

    name: str
    kind: str
    path: tuple[str, ...] = ()
    series: str = ""
    statistic: Literal["last", "min", "max", "mean"] = "last"


class TimeSpan(NamedTuple):
    """A time; a day is one from its first moment up to, and without, ``end``."""

    start: datetime
    end: datetime


def read_field(name: FilterText) -> Field:
    """Return the field of that name. Raises FilterError, which names the nearest one."""
    text = name.text
    if text.lower() in FIXED:
        return Field(text.lower(), text.lower())
    if text.startswith(SUMMARY):
        return _figure(name)
    if text.startswith(CONFIG):
        return Field(text, "config", _path(name, text.removeprefix(CONFIG)))
    known = _spec_fields()
    if is_of_spec(text):
        return Field(text, "spec", _path(name, text))
    rest = text.partition(".")[2]
    candidates = [*FIXED, *known, *([f"{SUMMARY}{rest}", f"{CONFIG}{rest}"] if rest else [])]
    nearest = difflib.get_close_matches(text.lower(), candidates, 1, 0.0)
    raise FilterError(f"{_shown(text)} is no field; the nearest is {nearest[0]}.", name.position)


def _figure(name: FilterText) -> Field:
    series, _, statistic = name.text.removeprefix(SUMMARY).rpartition(".")
    if not series or statistic not in STATISTICS:
        one_of = f"{', '.join(STATISTICS[:-1])} or {STATISTICS[-1]}, such as summary.val/loss.min"
        raise FilterError(f"{_shown(name.text)} needs a series and, behind a dot, {one_of}.", name.position)
    if statistic == "best":
        statistic = "max" if is_more_better(series) else "min"
    return Field(name.text, "summary", series=series, statistic=statistic)  # type: ignore[arg-type]  # one of four


def is_more_better(series: str) -> bool:
    return re.split(r"[^a-z0-9]+", series.lower())[-1] in MORE_IS_BETTER


def _path(name: FilterText, path: str) -> tuple[str, ...]:
    keys = tuple(path.split("."))
    if not all(keys) or set('"\\') & set(path):
        raise FilterError(f"{_shown(name.text)} is no path: keys with dots between them.", name.position)
    return keys


def is_of_spec(path: str) -> bool:
    keys, known = path.split("."), _spec_fields()
    return path.startswith(LOCAL) or any(".".join(keys[:end]) in known for end in range(1, len(keys) + 1))


@cache
def _spec_fields() -> frozenset[str]:
    # Those with a name of their own here have columns.
    return frozenset(info.path for info in form_fields()) - {"name", "project", "tags"}


def number_of(value: FilterText) -> float | None:
    """Return the number that the value is; None for a text. Raises FilterError for one that is too large."""
    if value.is_quoted or not _NUMBER.fullmatch(value.text):
        return None
    number = float(value.text)
    if not math.isfinite(number):
        raise FilterError(f"{_shown(value.text)} is larger than any number that is kept.", value.position)
    return number


def is_none(value: FilterText) -> bool:
    """Return whether the value stands for “has none”."""
    return not value.is_quoted and value.text.lower() == NONE


def span_of(value: FilterText, now: datetime) -> TimeSpan:
    """Return the time that the value means; times without a zone are UTC. Raises FilterError."""
    try:
        if ago := _AGO.fullmatch(value.text):
            moment = now - int(ago[1]) * _UNITS[ago[2]]
            return TimeSpan(moment, moment)
        moment = datetime.fromisoformat(value.text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        is_day = _DAY.fullmatch(value.text) is not None
        return TimeSpan(moment.astimezone(UTC), moment.astimezone(UTC) + timedelta(days=is_day))
    except (ValueError, OverflowError):
        words = "is no time; write -7d, -12h, -30m, -2w, 2026-01-31 or 2026-01-31T12:00"
        raise FilterError(f"{_shown(value.text)} {words}.", value.position) from None


def statuses_of(word: str) -> frozenset[Status]:
    """Return the statuses that a word means: one, or the group ``live`` or ``ended``. None: there is no such."""
    if word.lower() in GROUPS:
        return GROUPS[word.lower()]
    return frozenset({Status(word.upper())} if word.upper() in Status.__members__ else ())


def status_of(value: FilterText) -> frozenset[Status]:
    """Return the statuses that the value means. Raises FilterError, which names the nearest one."""
    if found := statuses_of(value.text):
        return found
    nearest = difflib.get_close_matches(value.text.upper(), list(Status.__members__), 1, 0.0)
    raise FilterError(f"{_shown(value.text)} is no status; the nearest is {nearest[0]}.", value.position)


def _shown(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
