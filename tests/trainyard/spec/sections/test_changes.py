"""Changes in mid-training: as maps, as lines, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.sections.changes import changes_of_line

BASE = {"name": "a", "task": {"recipe": "language-model"}, "train": {"steps": 300}}


def changed(value: Any, **sections: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parse_spec({**BASE, **sections, "changes": value}).resolved()["changes"]
    return found


def test_a_change_is_a_map_or_a_line() -> None:
    (one,) = changed([{"behind": 100, "learning_rate": 0.002, "batch_size": 64}])
    assert one == {
        "behind": 100, "learning_rate": 0.002, "weight_decay": None, "batch_size": 64, "gradient_clip": None
    }  # fmt: skip
    assert changed("100: learning_rate=0.002 batch_size=64") == [one]
    assert changed(["100: learning_rate=2e-3 batch_size=64"]) == [one]
    assert changed("none") == changed([]) == []
    assert changed([one]) == [one], "a resolved spec is read again"


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ([{"behind": 0, "learning_rate": 1e-3}], "changes.0.behind", "0"),
        ([{"behind": 300, "learning_rate": 1e-3}], "changes.0.behind", "300"),
        ([{"behind": 100}], "changes.0", "nothing"),
        ([{"behind": 9, "batch_size": 8}, {"behind": 9, "batch_size": 4}], "changes.1.behind", "9"),
        ([{"behind": 9, "learning_rate": -1.0}], "changes.0.learning_rate", "-1"),
        ([{"behind": 9, "width": 8}], "changes.0.width", "width"),
        ("9: width=8", "changes", "width=8"),
        ("learning_rate=8", "changes", "learning_rate"),
    ],
)
def test_what_cannot_be_is_refused_with_path_and_value(value: Any, path: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        changed(value)
    assert any(one.path == path and words in str(one) for one in caught.value.errors), caught.value.errors


@pytest.mark.parametrize(
    "sections",
    [
        {"resources": {"nodes": 2}},
        {"resources": {"nodes": 2}, "parallel": {"balance": "speed"}},
        {"resources": {"nodes": 2}, "parallel": {"pipeline": {"stages": 2}}},
        {"train": {"steps": 300, "find_batch_size": "memory"}},
    ],
)
def test_a_batch_that_cannot_change_is_refused(sections: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        changed([{"behind": 9, "batch_size": 33}], **sections)
    assert [one.path for one in caught.value.errors] == ["changes.0.batch_size"]


def test_the_line_of_a_schedule_has_what_is_new_at_each_step() -> None:
    line = [
        (0, {"learning_rate": 0.1, "batch_size": 8}),
        (10, {"learning_rate": 0.2, "batch_size": 8}),
        (20, {"learning_rate": 0.2, "batch_size": 8}),
        (30, {"learning_rate": 0.1, "batch_size": 16, "width": 3}),
    ]
    assert changes_of_line(line) == [
        {"behind": 10, "learning_rate": 0.2},
        {"behind": 30, "learning_rate": 0.1, "batch_size": 16},
    ]
