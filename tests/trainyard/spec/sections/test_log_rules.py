"""Rules of the log in a spec and of a cluster: what is accepted, and what is refused with rule, pattern and place."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.sections.log_rules import MAX_RULES, line_of, read_rules, rules_of

SPEC: dict[str, Any] = {"name": "x", "task": {"recipe": "language-model"}}


def test_rules_are_maps_or_lines() -> None:
    rules = [{"label": "slow-disk", "pattern": "nfs: .*", "action": "exclude-node"}, "flaky notify: retry: \\d+"]
    spec = parse_spec({**SPEC, "log_rules": rules}).resolved()
    assert spec["log_rules"] == [
        {"label": "slow-disk", "pattern": "nfs: .*", "action": "exclude-node"},
        {"label": "flaky", "pattern": "retry: \\d+", "action": "notify"},
    ]
    assert [(one.label, one.action) for one in rules_of(spec)] == [("slow-disk", "exclude-node"), ("flaky", "notify")]
    assert [line_of(one) for one in spec["log_rules"]] == [
        "slow-disk exclude-node: nfs: .*",
        "flaky notify: retry: \\d+",
    ]
    assert parse_spec(spec).resolved() == spec
    assert parse_spec(SPEC).resolved()["log_rules"] == []


def test_a_metric_has_the_name_of_a_metric() -> None:
    line = r"train/loss metric: step (?P<step>\d+).* loss=(\S+)"
    [rule] = read_rules([line])
    assert (rule["label"], rule["action"]) == ("train/loss", "metric")
    assert line_of(rule) == line


def test_a_rule_only_labels_unless_it_says_more() -> None:
    assert read_rules(["slow: took \\d{3} s"]) == [{"label": "slow", "pattern": "took \\d{3} s", "action": "label"}]


@pytest.mark.parametrize(
    ("rules", "path", "words"),
    [
        (
            [{"label": "ok", "pattern": "a"}, {"label": "x", "pattern": "ab(c"}],
            "log_rules.1.pattern",
            'must be an expression in RE2\'s syntax, not "ab(c": missing ): ab(c (at character 1)',
        ),
        ([{"label": "x", "pattern": "a(?=b)"}], "log_rules.0.pattern", "(at character 2)"),
        ([{"label": "x", "pattern": "a\nb"}], "log_rules.0.pattern", "must be one line"),
        ([{"label": "x", "pattern": "a" * 201}], "log_rules.0.pattern", "must have at most 200 characters"),
        ([{"label": "x", "pattern": ""}], "log_rules.0.pattern", "must have at least 1 character"),
        ([{"label": "x y", "pattern": "a"}], "log_rules.0.label", "must be made of letters, digits, - and _"),
        ([{"label": "x/y", "pattern": "a"}], "log_rules.0", "must be made of letters, digits, - and _"),
        (["train/loss metric: loss"], "log_rules.0", "must have its number in brackets"),
        ([r"loss metric: step (?P<step>\d+)"], "log_rules.0", "must have its number in brackets"),
        ([{"label": "x" * 41, "pattern": "a"}], "log_rules.0.label", "must have at most 40 characters"),
        ([{"label": "x"}], "log_rules.0.pattern", "is required"),
        (
            [{"label": "x", "pattern": "a", "action": "kill"}],
            "log_rules.0.action",
            "must be label, notify, exclude-node",
        ),
        ([{"label": "x", "pattern": "a", "when": 1}], "log_rules.0.when", "is not a field of a spec"),
        (["just words"], "log_rules.0", "must be LABEL: PATTERN, or LABEL ACTION: PATTERN"),
        (["x explode: a"], "log_rules.0", "where ACTION is label, notify, exclude-node, no-retry"),
        (["x: a", "x: b"], "log_rules", 'must have each label once; "x" is there 2 times'),
        ([f"x{number}: a" for number in range(MAX_RULES + 1)], "log_rules", "must have at most 20 entries"),
        ("x: a", "log_rules", "must be a list"),
    ],
)
def test_what_is_refused_names_rule_and_value(rules: Any, path: str, words: str) -> None:
    with pytest.raises(SpecError) as of_cluster:
        read_rules(rules)
    with pytest.raises(SpecError) as of_spec:
        parse_spec({**SPEC, "log_rules": rules})
    for refused in (of_cluster, of_spec):
        (problem,) = refused.value.errors
        assert problem.path == path and words in problem.message
