"""From a document to the form and back."""

from __future__ import annotations

import pytest

from dashboard.pages.spec_form import as_value, document_of, problems_by_path, sections, typed_in, typed_of
from trainyard.spec import Problem, form_fields, parse_spec

RECIPE = {
    "name": "x",
    "task": {"recipe": "language-model", "environment": {"A": "1=2", "B": ""}},
    "tags": ["a, b", "c"],
}
SCRIPT = {
    "name": "y",
    "task": {"script": "train.py", "arguments": ["--lr", "3e-4", "a b", ""], "code": {"sha256": "a" * 64}},
}


@pytest.mark.parametrize("document", [RECIPE, SCRIPT], ids=["recipe", "script"])
def test_the_form_of_a_spec_says_the_same_spec(document: dict[str, object]) -> None:
    resolved = parse_spec(document).resolved()
    assert parse_spec(document_of(typed_of(resolved))).resolved() == resolved


def test_what_was_sent_is_what_is_shown_again() -> None:
    sent = {"task": "script", "name": " <b> ", "train.steps": "soon", "task.script": "a.py"}
    typed = typed_in(sent)
    assert {name: typed[name] for name in sent} == sent
    shown = {one.info.path: one.value for section in sections(typed, [], {}) for one in section.controls}
    assert shown["train.steps"] == "soon"


def test_text_that_is_no_number_stays_text_for_the_spec_to_refuse() -> None:
    fields = {info.path: info for info in form_fields()}
    assert as_value(fields["train.steps"], "300") == 300
    assert as_value(fields["train.steps"], "soon") == "soon"
    assert as_value(fields["train.learning_rate"], "1e-3") == 0.001
    assert as_value(fields["parallel.data"], "4") == 4
    assert as_value(fields["parallel.data"], "auto") == "auto"
    assert as_value(fields["task.arguments"], "--x 'a b'") == ["--x", "a b"]
    assert as_value(fields["task.arguments"], "--x 'a b") == "--x 'a b"


def test_an_empty_field_means_its_default() -> None:
    typed = {**typed_of(RECIPE), "train.steps": "", "cluster": ""}
    document = document_of(typed)
    assert "steps" not in document["train"] and "cluster" not in document


def test_a_problem_stands_at_its_field_or_at_the_field_around_it_or_on_top() -> None:
    found = problems_by_path(
        [Problem("tags.3", "is long"), Problem("train.steps", "is few"), Problem("task", "is odd"), Problem("", "bad")]
    )
    assert found == {"tags": "3: is long", "train.steps": "is few", "": "task: is odd; bad"}


def test_every_field_of_the_spec_is_in_the_form_or_named_as_fixed() -> None:
    made = sections(typed_of(RECIPE), [], {})
    shown = {one.info.path for section in made for one in (*section.controls, *section.advanced, *section.fixed)}
    assert {info.path for info in form_fields()} - shown == {"task.recipe"}  # the switch says it
