"""Completion of a filter: what may stand at the end of what was typed."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

KNOWN = {
    "names": [
        *({"name": name, "kind": "text"} for name in ("status", "name", "train.steps", "summary.train/loss.min")),
        {"name": "progress", "kind": "column"},
    ],
    "values": {"status": ["live", "FAILED"], "user": ["ada", "grace hopper"]},
}
OFFER = "({offerFor}, [text, known]) => offerFor(text, known)"


@pytest.mark.parametrize(
    ("text", "start", "options"),
    [
        ("tra", 0, ["train.steps", "summary.train/loss.min"]),
        ("name = x and (st", 14, ["status", "train.steps"]),
        ("status = ", 9, ["live", "FAILED"]),
        ("status=fa", 7, ["FAILED"]),
        ("user in (ada, gr", 14, ["grace hopper"]),
        ('user != "gr', 8, ["grace hopper"]),
    ],
)
def test_fields_and_the_values_of_a_field_are_offered(text: str, start: int, options: list[str], ask: Ask) -> None:
    found = ask("grid/completion.js", OFFER, [text, KNOWN])
    assert (found["from"], found["options"]) == (start, options)


@pytest.mark.parametrize("text", ["", "muon ", "train.steps > 1", "name ~ x", "prog", "status", "zzz"])
def test_nothing_is_offered_where_nothing_fits(text: str, ask: Ask) -> None:
    assert ask("grid/completion.js", OFFER, [text, KNOWN]) is None


def test_a_hundred_thousand_names_are_looked_through_within_a_key(ask: Ask) -> None:
    took = ask(
        "grid/completion.js",
        """({offerFor}) => {
            const name = (_, at) => ({ name: `summary.layer${at}/loss.min`, kind: "" });
            const names = Array.from({ length: 100_000 }, name);
            const start = performance.now();
            offerFor("created > -7d and layer77", { names, values: {} });
            return performance.now() - start;
        }""",
    )
    assert took < 500
