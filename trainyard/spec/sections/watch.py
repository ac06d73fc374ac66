"""Rules on metrics: which values of a run's series somebody should know of, and what follows."""

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.spec.problems import show
from trainyard.spec.values.fields import Number, Part, maps_or_lines, more_safety

WatchAction = Literal["notify", "stop", "rewind"]
MOST_RULES = 20
LEAST_OVER, MOST_OVER = 10, 10_000
_PAIR = re.compile(r"(nan|spike|over|action|rewinds)=(\S+)")


def _metric(value: str) -> str:
    if not value.strip() or value != value.strip() or any(not char.isprintable() or char == " " for char in value):
        raise ValueError(f"must be the name of a metric without spaces, such as train/loss, not {show(value)}")
    return value


class WatchRule(Part):
    """One rule. ``metric`` may have * for any characters."""

    metric: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_metric)]
    nan: bool = True
    spike: Annotated[Number, Field(ge=0, le=1_000)] = 0.0  # robust deviations above the median; 0: none is looked for
    over: Annotated[int, Field(ge=LEAST_OVER, le=MOST_OVER)] = 50
    action: WatchAction = "notify"
    rewinds: Annotated[int, Field(ge=0, le=100)] = 2

    def is_about(self, name: str) -> bool:
        return fnmatchcase(name, self.metric)


DEFAULT_RULES = [WatchRule(metric="train/loss", nan=True, spike=8.0)]


def rule_of(line: str) -> JsonObject:
    """Return the map that a line such as ``train/loss nan=true spike=6 over=50 action=notify`` means. Raises
    ValueError."""
    metric, *words = line.split()
    found: JsonObject = {"metric": metric}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None:
            example = "nan=true, spike=6, over=50, action=notify"
            raise ValueError(f"must be a metric and words such as {example}, not {show(word)}")
        found[pair[1]] = _value(pair[1], pair[2])
    return found


def line_of(rule: JsonObject) -> str:
    """Return the rule as a line; ``rule_of`` reads it."""
    words = [str(rule.get("metric", ""))]
    for name in ("nan", "spike", "over", "action", "rewinds"):
        if name in rule and (name != "rewinds" or rule.get("action") == "rewind"):
            value = rule[name]
            words.append(f"{name}={str(value).lower() if isinstance(value, bool) else _short(value)}")
    return " ".join(words)


def _value(name: str, text: str) -> bool | float | str:
    if name == "nan":
        return {"true": True, "false": False}.get(text, text)
    if name == "action":
        return text
    try:
        return int(text) if name in ("over", "rewinds") else float(text)
    except ValueError:
        return text


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


Rules = Annotated[list[WatchRule], Field(max_length=MOST_RULES), maps_or_lines(rule_of)]


def watch_field() -> Any:
    """Declare the field ``watch`` of the specs that log metrics."""
    return more_safety(
        DEFAULT_RULES,
        "Watch",
        "Rules on metrics, a line for each, such as train/loss nan=true spike=8 over=50 action=notify; none is "
        "none. A spike is so many robust deviations above the median of the values before it; the actions are notify, "
        "stop and rewind, at most rewinds=2 times.",
        kind="lines",
    )


def rules_of(spec: SpecDocument) -> list[WatchRule]:
    """Return the rules of a resolved spec; one that is older than they are has the defaults."""
    if "recipe" in spec.get("task", {}) and spec["task"]["recipe"] == "communication-benchmark":
        return []
    given = spec.get("watch")
    return DEFAULT_RULES if given is None else [WatchRule.model_construct(**one) for one in given]
