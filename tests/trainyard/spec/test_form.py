"""What the form is told of each field."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import KINDS, fields_of, form_fields, merge, parse_spec
from trainyard.spec.form import GROUPS


def test_fields_come_in_the_order_of_the_form() -> None:
    groups = [field.group for field in form_fields()]
    assert groups == sorted(groups, key=GROUPS.index)
    assert form_fields()[0].path == "name"
    assert len({field.path for field in form_fields()}) == len(form_fields())


def test_each_field_has_a_label_and_one_line_of_help() -> None:
    for field in form_fields():
        assert field.label and field.help.endswith(".") and "\n" not in field.help, field.path


def test_numbers_have_limits_and_choices_have_their_default_among_them() -> None:
    fields = {field.path: field for field in form_fields()}
    assert fields["train.steps"].minimum == 1 and fields["train.steps"].is_whole
    assert fields["train.learning_rate"].is_above and not fields["train.learning_rate"].is_whole
    assert fields["resources.accelerator"].choices == ("auto", "cpu", "gpu")
    for field in form_fields():
        assert field.kind != "number" or (field.minimum is not None and field.maximum is not None), field.path
        assert field.kind != "choice" or field.is_required or field.default in field.choices, field.path


def test_every_default_that_the_form_shows_is_the_one_that_is_filled_in() -> None:
    for kind in KINDS:
        resolved = parse_spec(shortest(kind)).resolved()
        for path, field in fields_of(kind).items():
            is_said = field.is_required or path in ("resources.nodes", "task.script")
            assert is_said or look(resolved, path) == field.default, (kind, path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_can_be_set_to_its_own_default(kind: str) -> None:
    for field in fields_of(kind).values():
        if not field.is_required and field.path not in ("resources.nodes", "task.script"):
            parse_spec(merge(shortest(kind), {field.path: field.default}))


def test_a_field_of_several_kinds_tells_the_choices_of_all_and_whom_its_need_binds() -> None:
    fields = {field.path: field for field in form_fields()}
    source = fields["task.data.source"]
    assert source.tasks == ("language-model", "image-classifier", "tabular")
    assert {"python-stdlib", "digits", "iris"} <= set(source.choices)
    assert fields_of("image-classifier")["task.data.source"].choices == ("digits", "images", "npz")
    assert fields["task.model.heads"].needs and fields["task.model.heads"].needing == ("image-classifier",)
    assert fields_of("language-model")["task.model.heads"].needs is None


def test_a_list_of_choices_tells_them() -> None:
    operations = fields_of("communication-benchmark")["task.operations"]
    assert operations.kind == "list" and "all-reduce" in operations.choices
    assert tuple(operations.default) == operations.choices


def shortest(kind: str) -> dict[str, Any]:
    task = {"script": "a.py"} if kind == "script" else {"recipe": kind}
    return {"name": "x", "task": task, **({"resources": {"nodes": 2}} if kind == "communication-benchmark" else {})}


def look(document: object, path: str) -> object:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document
