"""From a document to the form and back."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from dashboard.pages.launch.spec_form import (
    TASKS,
    Control,
    FormSection,
    Typed,
    as_value,
    document_of,
    problems_by_path,
    sections,
    typed_in,
    typed_of,
)
from trainyard.spec import Problem, SpecError, form_fields, parse_spec
from trainyard.spec.document import value_at_path

RECIPE = {
    "name": "x",
    "task": {"recipe": "language-model", "environment": {"A": "1=2", "B": ""}},
    "tags": ["a, b", "c"],
}
SCRIPT = {
    "name": "y",
    "task": {"script": "train.py", "arguments": ["--lr", "3e-4", "a b", ""], "code": {"sha256": "a" * 64}},
}


IMAGES = {
    "name": "z",
    "task": {
        "recipe": "image-classifier",
        "model": {"architecture": "vit", "heads": 8, "patch": 4},
        "data": {"source": "images", "location": "/data/cats"},
    },
}
TABLE = {"name": "t", "task": {"recipe": "tabular", "data": {"source": "csv", "location": "/a.csv", "target": "price"}}}
LINKS = {
    "name": "l",
    "task": {"recipe": "communication-benchmark", "operations": ["ring", "compute"]},
    "resources": {"nodes": 2},
}


@pytest.mark.parametrize(
    "document",
    [RECIPE, SCRIPT, IMAGES, TABLE, LINKS],
    ids=["language-model", "script", "image-classifier", "tabular", "communication-benchmark"],
)
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
    shown = {one.info.path for section in made for one in (*section.controls, *section.advanced)}
    assert {info.path for info in form_fields()} - shown == {"task.recipe"}  # the switch says it


NEEDING = {
    "parallel.pipeline.schedule": ("gpipe", {"parallel.pipeline.stages": "2"}),
    "parallel.pipeline.microbatches": ("4", {"parallel.pipeline.stages": "2"}),
    "parallel.synchronization.outer_momentum": ("0.5", {"parallel.synchronization.kind": "diloco"}),
    "parallel.synchronization.every_steps": ("7", {"parallel.synchronization.kind": "local-sgd"}),
    "parallel.topk_ratio": ("0.05", {"parallel.compression": "topk"}),
    "parallel.reshard_after_forward": ("", {"parallel.shard": "2"}),
    "train.scale_learning_rate": ("sqrt", {"train.find_batch_size": "memory"}),
    "early_stopping.min_delta": ("0.5", {"early_stopping.patience": "3"}),
}


@pytest.mark.parametrize("path", NEEDING)
def test_a_field_that_nothing_reads_is_hidden_and_left_out_and_keeps_what_was_typed(path: str) -> None:
    text, others = NEEDING[path]
    typed = {**typed_of(RECIPE), path: text}
    hidden = {one.info.path: one for section in sections(typed, [], {}) for one in all_of(section)}[path]
    assert hidden.is_hidden and hidden.value == text
    assert parse_spec(document_of(typed)) == parse_spec(RECIPE), "as if it had not been typed"
    shown = {one.info.path: one for section in sections(typed | others, [], {}) for one in all_of(section)}[path]
    assert not shown.is_hidden and shown.value == text
    info = shown.info
    assert value_at_path(document_of(typed | others), path)[1] == as_value(info, text) != info.default


@pytest.mark.parametrize("text", ["", "many", "0", "1", "1.0"])
def test_a_degree_that_is_not_above_one_hides_what_needs_it(text: str) -> None:
    typed = {**typed_of(RECIPE), "parallel.pipeline.stages": text}
    assert {one.info.path for section in sections(typed, [], {}) for one in all_of(section) if one.is_hidden} >= {
        "parallel.pipeline.schedule",
        "parallel.pipeline.microbatches",
    }


def test_an_empty_field_that_another_needs_means_its_default() -> None:
    typed = {**typed_of(RECIPE), "checkpoint.every_steps": "", "checkpoint.keep": "7"}
    assert document_of(typed)["checkpoint"] == {"keep": 7, "replicate_every_steps": "auto"}
    assert "keep" not in document_of({**typed, "checkpoint.every_steps": "0"})["checkpoint"]


@pytest.mark.parametrize("kind", ["image-classifier", "tabular"])
def test_a_choice_of_another_kind_counts_as_not_typed_and_its_default_is_shown(kind: str) -> None:
    typed = {**typed_of(RECIPE), "task": kind, "task.data.location": "/left/over"}
    spec = parse_spec(document_of(typed)).resolved()
    built_in = {"image-classifier": "digits", "tabular": "breast-cancer"}[kind]
    assert (spec["task"]["recipe"], spec["task"]["data"]["source"]) == (kind, built_in)
    assert spec["task"]["data"]["location"] == "", "which goes with files, and the form hides it"
    source = of_path(typed, "task.data.source")
    assert source.value == built_in and {option.tasks for option in source.options} >= {"language-model", "tabular"}


def test_a_choice_that_no_kind_has_is_refused_and_stays_to_be_seen() -> None:
    typed = {**typed_of(RECIPE), "task": "tabular", "task.data.source": "c4"}
    with pytest.raises(SpecError, match='not "c4"'):
        parse_spec(document_of(typed))
    assert of_path(typed, "task.data.source").value == "c4"


def test_what_one_kind_alone_needs_another_for_is_hidden_in_that_kind_alone() -> None:
    heads = {kind: of_path({**typed_of(RECIPE), "task": kind}, "task.model.heads") for kind in TASKS}
    assert [kind for kind, control in heads.items() if control.is_hidden] == ["image-classifier"]
    assert heads["language-model"].needing == "image-classifier"


def test_a_list_of_choices_is_a_group_of_checkboxes() -> None:
    operations = of_path(typed_of(LINKS), "task.operations")
    assert operations.widget == "checks" and operations.chosen == ["ring", "compute"]
    assert [option.value for option in operations.options][:2] == ["all-reduce", "all-gather"]
    sent = QueryDict("task=communication-benchmark&name=l&task.operations=ring&task.operations=compute")
    assert document_of(typed_in(sent))["task"]["operations"] == ["ring", "compute"]


def test_no_checkbox_at_all_is_refused_and_not_all_of_them() -> None:
    typed = {**typed_of(LINKS), "task.operations": ""}
    with pytest.raises(SpecError, match="must name at least 1"):
        parse_spec(document_of(typed))


def test_sections_that_a_benchmark_has_nothing_in_are_hidden_from_it() -> None:
    only = {section.key: section.only for section in sections(typed_of(LINKS), [], {})}
    assert only["what"] == only["where"] == ""
    assert only["safety"] == "", "any run may have a time limit"
    for key in ("parallel", "train"):
        assert only[key].split() == ["task-field", "for-language-model", "for-image-classifier", "for-tabular"]


def of_path(typed: Typed, path: str) -> Control:
    return {one.info.path: one for section in sections(typed, [], {}) for one in all_of(section)}[path]


def all_of(section: FormSection) -> list[Control]:
    return [*section.controls, *section.advanced]


def test_what_is_said_of_a_named_dataset_stays_whatever_source_stands_beside_it() -> None:
    document = {"name": "x", "task": {"recipe": "tabular", "data": {"dataset": "prices", "target": "size"}}}
    typed = typed_of(parse_spec(document).resolved())
    assert typed["task.data.source"] == "breast-cancer" and parse_spec(document_of(typed)) == parse_spec(document)
    shown = {one.info.path: not one.is_hidden for section in sections(typed, [], {}) for one in section.controls}
    assert shown["task.data.target"] and not shown["task.data.location"], "which the dataset alone says"
