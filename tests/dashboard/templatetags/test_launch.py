"""The markup of a field that was drawn once is what the template makes of the field itself."""

from __future__ import annotations

import re

import pytest

from dashboard.pages.launch import sources
from dashboard.pages.launch.spec_form import Control, Option, Typed, sections, typed_of
from dashboard.templatetags import launch
from trainyard.spec import Problem, form_fields

FILES = ["train.py"]


def controls(typed: Typed, *problems: Problem) -> list[Control]:
    choices = {"cluster": [Option("local", "local", projects="default"), Option("<b>", "<b>")]}
    return [one for section in sections(typed, problems, choices) for one in (*section.controls, *section.advanced)]


def without_spaces(markup: str) -> str:
    return re.sub(r"\s+", " ", markup).strip()


@pytest.mark.parametrize("name", ["hello-gpt", "digits", "ddp-script"])
def test_each_field_of_an_example_is_as_the_template_draws_it(name: str) -> None:
    for control in controls(typed_of(sources.examples()[name])):
        for shown in (control, control._replace(is_hidden=not control.is_hidden)):
            drawn = launch.field_markup(shown, FILES)
            assert without_spaces(drawn) == without_spaces(launch._draw(shown, FILES)), control.info.path


def test_what_one_person_types_another_does_not_see() -> None:
    for text in ("<script>own-words", "", "others"):
        typed = {info.path: text for info in form_fields()} | {"task": "script"}
        for control in controls(typed, Problem("name", "<i>is wrong")):
            drawn = launch.field_markup(control, FILES)
            assert without_spaces(drawn) == without_spaces(launch._draw(control, FILES)), control.info.path
            assert "<script>" not in drawn and "<i>" not in drawn
            assert "own-words" not in drawn or "own-words" in text


def test_a_list_marks_what_is_chosen_and_says_who_has_it() -> None:
    cluster = next(
        one
        for one in controls(typed_of({"cluster": "local", "task": {"script": "a.py", "code": "."}}))
        if one.info.path == "cluster"
    )
    drawn = launch.field_markup(cluster, FILES)
    assert '<option value="local" data-projects="default" selected>local</option>' in drawn
    assert '<option value="&lt;b&gt;">&lt;b&gt;</option>' in drawn
