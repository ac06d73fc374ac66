"""When a run counts as hung: what the section accepts, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError, parse_spec
from trainyard.spec.sections.hangs import HangRules

BASE: dict[str, Any] = {"name": "hello", "task": {"recipe": "language-model"}}


def resolved(hangs: Any) -> dict[str, Any]:
    return parse_spec({**BASE, "hangs": hangs}).resolved()


@pytest.mark.parametrize(
    ("given", "after_s", "written"),
    [("90s", 90.0, "90s"), (90, 90.0, "90s"), ("2m", 120.0, "2m"), ("auto", None, "auto")],
)
def test_a_length_of_time_or_auto(given: Any, after_s: float | None, written: str) -> None:
    spec = resolved({"after": given, "action": "notify"})
    assert spec["hangs"] == {"after": written, "action": "notify"}
    assert HangRules.of(spec) == HangRules(after_s, "notify")


def test_without_the_section_hangs_are_found_and_the_run_is_restarted() -> None:
    assert parse_spec(BASE).resolved()["hangs"] == {"after": "auto", "action": "restart"}
    assert HangRules.of({}) == HangRules(None, "restart")  # of a spec that is older than the section


@pytest.mark.parametrize(
    ("hangs", "path", "words"),
    [
        ({"after": "soon"}, "hangs.after", 'must be a length of time such as 90s, 45m, 2h or 1h30m, not "soon"'),
        ({"after": "0s"}, "hangs.after", 'must be auto, or from 1s to 7d, not "0s"'),
        ({"after": "8d"}, "hangs.after", 'must be auto, or from 1s to 7d, not "8d"'),
        ({"after": None}, "hangs.after", "must be auto or a length of time such as 90s, not null"),
        ({"action": "kill"}, "hangs.action", "kill"),
        ({"limit": "5s"}, "hangs.limit", "limit"),
    ],
)
def test_a_refusal_names_the_field_and_the_value(hangs: Any, path: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        resolved(hangs)
    (problem,) = caught.value.errors
    assert problem.path == path
    assert words in f"{problem.path} {problem.message}"
