"""What the form is told of each field."""

from __future__ import annotations

from trainyard.spec import form_fields, merge, parse_spec
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
    resolved = [
        parse_spec({"name": "x", "task": task}).resolved()
        for task in ({"recipe": "language-model"}, {"script": "train.py"})
    ]
    for field in form_fields():
        found = [value for document in resolved if (value := look(document, field.path)) is not None]
        assert found, field.path
        assert field.is_required or all(value == field.default for value in found), field.path


def test_every_field_can_be_set_to_its_own_default() -> None:
    for field in form_fields():
        if not field.is_required:
            task = {"script": "a.py"} if field.path in ("task.arguments", "task.code") else {"recipe": "language-model"}
            parse_spec(merge({"name": "x", "task": task}, {field.path: field.default}))


def look(document: object, path: str) -> object:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document
