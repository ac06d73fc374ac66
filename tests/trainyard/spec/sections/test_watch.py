"""The rules of a spec: as maps, as lines, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.sections.watch import line_of, rule_of, rules_of

BASE = {"name": "a", "task": {"recipe": "language-model"}}


def watched(value: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parse_spec({**BASE, "watch": value}).resolved()["watch"]
    return found


def test_without_rules_nan_and_spikes_of_the_loss_notify() -> None:
    (rule,) = rules_of(parse_spec(BASE).resolved())
    assert (rule.metric, rule.nan, rule.spike, rule.action) == ("train/loss", True, 8.0, "notify")
    assert rules_of(parse_spec({**BASE, "watch": []}).resolved()) == []
    assert rules_of({"task": {"script": "old.py"}}) == [rule]


def test_a_rule_is_a_map_or_a_line() -> None:
    full = {"metric": "val/*", "nan": False, "spike": 3.0, "over": 20, "action": "rewind", "rewinds": 4}
    assert watched([full]) == [full]
    assert watched(["val/* nan=false spike=3 over=20 action=rewind rewinds=4"]) == [full]
    assert watched("none") == watched(["none"]) == watched([]) == []
    assert rule_of(line_of(full)) == full


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([{"metric": "two words"}], "watch.0.metric"),
        ([{"metric": "a", "spike": -1}], "watch.0.spike"),
        ([{"metric": "a", "over": 3}], "watch.0.over"),
        ([{"metric": "a", "action": "panic"}], "watch.0.action"),
        ([{"metric": "a", "spikes": 3}], "watch.0.spikes"),
        (["train/loss spike"], "watch"),
        ([{}], "watch.0.metric"),
        (3, "watch"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_place(value: Any, path: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_spec({**BASE, "watch": value})
    assert [error.path for error in refused.value.errors] == [path], refused.value


def test_an_unknown_word_names_those_that_are_accepted() -> None:
    with pytest.raises(SpecError, match="accepted here: metric, nan, spike, over, action, rewinds"):
        parse_spec({**BASE, "watch": [{"metric": "a", "spikes": 3}]})
