"""Facts that a script states about its run beside what it logs: configuration, tags, notes, group, metrics.

They travel as one small record that holds everything that was stated so far; a later one takes its place.
"""

from __future__ import annotations

import enum
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from trainyard.contract import records
from trainyard.contract.base import JsonObject, convert, to_builtins
from trainyard.sdk.buffers import Refuse, flat

if TYPE_CHECKING:
    from trainyard.sdk.run import Run

MAX_RULES_BYTES = 50_000  # of JSON, as the server keeps them
MAX_DEPTH = 20
MAX_TEXT = 100_000  # characters of one value
GOALS = {"minimize": "min", "maximize": "max", "min": "min", "max": "max"}
T = TypeVar("T", str, list[str])
SUMMARIES = ("last", "min", "max", "mean", "best")


class ConfigConflict(ValueError):
    """A configuration's key that already has another value."""


class Config(MutableMapping[str, Any]):
    """The configuration of a run: a dictionary whose keys are attributes, too. ``a.b`` is ``b`` inside of ``a``.

    A key keeps its value: another one raises ConfigConflict, except by ``update(..., allow_change=True)``. Values
    become what JSON has: numbers, texts, booleans, None, lists and dictionaries; all else its text.
    """

    _values: JsonObject
    _changed: Any

    def __init__(self, changed: Any) -> None:
        object.__setattr__(self, "_values", {})
        object.__setattr__(self, "_changed", changed)

    def update(self, other: Any = (), /, *, allow_change: bool = False, **more: Any) -> None:
        """Take over a dictionary, a namespace of argparse, a dataclass, or a configuration of OmegaConf. Raises
        ConfigConflict, before anything is taken, and TypeError for what is none of these."""
        merged = self.as_dict()
        _merge(plain({**mapping_of(other), **more}), merged, "", allow_change=allow_change)
        self._keep(merged)

    def _keep(self, values: JsonObject) -> None:
        # Another dictionary each time: the writing thread may be reading the one before.
        object.__setattr__(self, "_values", values)
        self._changed()

    def __getitem__(self, key: str) -> Any:
        found: Any = self._values
        for part in key.split("."):
            if not isinstance(found, dict) or part not in found:
                raise KeyError(key)
            found = found[part]
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __delitem__(self, key: str) -> None:
        values = inner = self.as_dict()
        *above, last = key.split(".")
        for part in above:
            inner = inner[part]
        del inner[last]
        self._keep(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the configuration has no {key!r}; it has {', '.join(self) or 'nothing'}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __repr__(self) -> str:
        return f"Config({self._values!r})"

    def as_dict(self) -> JsonObject:
        """Return a copy as plain dictionaries."""
        copy: JsonObject = plain(self._values)
        return copy


class Summary(Mapping[str, Any]):
    """Values that stand for the run: what was stated here, else the last one of each series of this process.

    ``summary["best"] = 0.9`` is also logged, at the newest step, as ``summary/best``: the pages, filters and REST have
    it as they have every series, and no point of a series ``best`` is replaced.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._given: dict[str, Any] = {}

    def update(self, other: Mapping[str, Any] = MappingProxyType({}), /, **more: Any) -> None:
        """State several values."""
        given = flat({**other, **more})
        self._given.update(given)
        self._run.log({f"summary/{name}": value for name, value in given.items()}, self._run.newest()[1])

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __getitem__(self, name: str) -> Any:
        return self._given[name] if name in self._given else self._run.newest()[0][name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._run.newest()[0], **self._given})

    def __len__(self) -> int:
        return len({**self._run.newest()[0], **self._given})


class Stated:
    """All that the script has stated about its run."""

    def __init__(self, changed: Any) -> None:
        self.config = Config(changed)
        self.tags: list[str] = []
        self.notes = self.group = self.job_type = ""
        self.metrics: dict[str, records.MetricRule] = {}

    def record(self, refuse: Refuse) -> records.Description | None:
        """Return the record; None where there is nothing to state. What no record can hold goes to ``refuse``."""
        made = records.Description(
            config=self.config.as_dict(),
            tags=_cut("tags", [_text(tag) for tag in self.tags], records.MAX_TAGS, refuse),
            notes=_cut("notes", _text(self.notes), records.MAX_NOTES, refuse),
            group=_cut("group", _text(self.group), records.MAX_NAME_CHARS, refuse),
            job_type=_cut("job_type", _text(self.job_type), records.MAX_NAME_CHARS, refuse),
            metrics=self.metrics,
        )
        if (size := len(json.dumps(to_builtins(made.metrics)))) > MAX_RULES_BYTES:
            refuse("define_metric", f"has {size:,} bytes of rules, and {MAX_RULES_BYTES:,} at most are kept")
            made.metrics = {}
        if (size := len(records.encode_record(made))) > records.MAX_CONFIG_BYTES:
            refuse("config", f"has {size:,} bytes, and {records.MAX_CONFIG_BYTES:,} at most are kept")
            made.config = {}
        return made if made != records.Description() else None


def _cut(word: str, value: T, most: int, refuse: Refuse) -> T:
    if len(value) > most:  # the server would take nothing of the record
        refuse(word, f"has {len(value):,} of {most:,} that are kept; the rest is left out")
    return value[:most]


def metric_rule(name: str, step_metric: str | None, summary: str | None, goal: str | None) -> records.MetricRule:
    """Return the rule. Raises ValueError, which names the word and its value."""
    if not 0 < len(name) <= records.MAX_NAME_CHARS:
        raise ValueError(f"define_metric: the name {name!r:.60} is no text of 1 to {records.MAX_NAME_CHARS} characters")
    if summary is not None and summary not in SUMMARIES:
        raise ValueError(f"define_metric: summary={summary!r} is none of {', '.join(SUMMARIES)}")
    if goal is not None and goal not in GOALS:
        raise ValueError(f"define_metric: goal={goal!r} is neither minimize nor maximize")
    return convert(
        {"x": _text(step_metric or ""), "summary": summary or "", "goal": GOALS[goal] if goal else ""},
        records.MetricRule,
    )


def texts(word: str, values: Iterable[object] | None) -> list[str]:
    """Return the texts in their order, each once. Raises TypeError for one text in the place of several."""
    if isinstance(values, str):
        raise TypeError(f"{word}={values!r:.60} is a text; it takes a list of texts")
    return list(dict.fromkeys(str(one) for one in values or ()))


def mapping_of(given: Any) -> Mapping[str, Any]:
    """Return what was given as a dictionary. Raises TypeError, which names its kind."""
    omegaconf = sys.modules.get("omegaconf")
    if omegaconf is not None and omegaconf.OmegaConf.is_config(given):
        return dict(omegaconf.OmegaConf.to_container(given, resolve=True))
    if isinstance(given, Mapping) or given == ():
        return dict(given)
    if is_dataclass(given) and not isinstance(given, type):
        return asdict(given)
    for name in ("model_dump", "to_dict", "_asdict"):  # pydantic, transformers, a named tuple
        if callable(dump := getattr(given, name, None)) and not isinstance(given, type):
            return dict(dump())
    if hasattr(given, "__dict__") and not isinstance(given, type):  # argparse.Namespace, types.SimpleNamespace
        return {name: value for name, value in vars(given).items() if not name.startswith("_")}
    raise TypeError(f"config is a {type(given).__name__}; it takes a dictionary, a namespace or a dataclass")


def plain(value: Any, depth: int = 0) -> Any:
    """Return the value as JSON has it. Keys with dots become dictionaries inside of each other."""
    if depth > MAX_DEPTH:
        return _text(value)
    if isinstance(value, Mapping):
        made: JsonObject = {}
        for key, one in value.items():
            *above, last = [part for part in _text(key).split(".") if part] or ["_"]
            inner: JsonObject = {last: plain(one, depth + 1)}
            for part in reversed(above):
                inner = {part: inner}
            _merge(inner, made, "", allow_change=False)
        return made
    if isinstance(value, enum.Enum):
        return plain(value.value, depth + 1)
    if hasattr(value, "dtype") and callable(item := getattr(value, "item", None)):  # scalars of NumPy and PyTorch
        with suppress(Exception):  # of several elements: its text
            value = item()
    if value is None or isinstance(value, bool | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray):
        return [plain(one, depth + 1) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value), depth + 1)
    return os.fspath(value) if isinstance(value, os.PathLike) else _text(value)


def _merge(given: JsonObject, into: JsonObject, path: str, *, allow_change: bool) -> None:
    for key, value in given.items():
        known = into.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            _merge(value, known, f"{path}{key}.", allow_change=allow_change)
        elif key in into and known != value and not allow_change:
            raise ConfigConflict(
                f"config.{path}{key} is {known!r:.60} and cannot become {value!r:.60}; "
                "update(..., allow_change=True) changes it"
            )
        else:
            into[key] = value


def _text(value: object) -> str:
    return str(value)[:MAX_TEXT].encode("utf-8", "replace").decode()
