"""Which fields of the launch form a kind of task reads, and what they say when it is switched."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.dashboard.js.conftest import Ask

FORM = """
<input type="radio" name="task" value="gpt" checked><input type="radio" name="task" value="table">
<input type="radio" name="task" value="script"><input name="name" value="hello-gpt">
<div class="field" data-path="source" data-defaults='{"gpt": "stdlib", "table": "iris"}'>
  <select name="source"><option data-tasks="gpt" selected>stdlib</option><option data-tasks="gpt">text</option>
  <option data-tasks="table">csv</option><option data-tasks="table">iris</option></select></div>
<div class="field" data-path="rate" data-defaults='{"gpt": "0.1", "table": "0.2"}'><input name="rate" value="0.1"></div>
<div class="field" data-path="column" data-needs="source" data-needs-values="csv" data-needs-default="stdlib"
  data-needing="table" data-named-by="dataset"><input name="column" value="target"></div>
<select name="dataset"><option value="" selected>none</option><option>rows</option></select>
<div class="field" data-path="stages"><input name="stages" value="1"></div>
<div class="field" data-path="schedule" data-needs="stages" data-needs-values="" data-needs-above="1"
  data-needs-default="1" data-needing="gpt table"><input name="schedule"></div>
<input type="checkbox" name="reshard" checked>
"""
SWITCH = """(fields, kinds) => {
    const form = document.querySelector("form");
    let before = fields.kindOf(form);
    for (const kind of kinds) {
        form.querySelector(`[name=task][value=${kind}]`).checked = true;
        fields.showKind(form, before);
        fields.showNeeded(form);
        before = kind;
    }
    const { name, source, rate } = form.elements;
    return [name.value, source.value, rate.value];
}"""


@pytest.fixture(autouse=True)
def form(page: Page) -> None:
    page.evaluate(
        "(html) => document.getElementById('place').replaceChildren(Object.assign(document.createElement('form'),"
        " { innerHTML: html }))",
        FORM,
    )


def test_a_switch_brings_the_kinds_own_defaults(ask_page: Ask) -> None:
    assert ask_page("launch/fields.js", SWITCH, ["table"]) == ["table", "iris", "0.2"]


@pytest.mark.parametrize("way", [["table", "gpt"], ["script", "table", "script", "gpt"]], ids=" ".join)
def test_switching_back_is_as_before(ask_page: Ask, way: list[str]) -> None:
    assert ask_page("launch/fields.js", SWITCH, way) == ["hello-gpt", "stdlib", "0.1"]


def test_what_was_typed_stays_as_far_as_the_kind_has_it(ask_page: Ask, page: Page) -> None:
    page.locator("[name=rate]").fill("0.5")
    page.locator("[name=name]").fill("mine")
    page.locator("[name=source]").select_option("text")
    assert ask_page("launch/fields.js", SWITCH, ["table", "gpt"]) == ["mine", "stdlib", "0.5"]


def test_choices_of_other_kinds_cannot_be_chosen(ask_page: Ask, page: Page) -> None:
    ask_page("launch/fields.js", SWITCH, ["table"])
    assert page.locator("[name=source] option:not([disabled])").all_text_contents() == ["csv", "iris"]
    assert page.locator("[name=source] option:not([hidden])").all_text_contents() == ["csv", "iris"]


@pytest.mark.parametrize(
    ("kind", "typed", "shown"),
    [
        ("gpt", {}, {"column": True, "schedule": False}),
        ("table", {}, {"column": False, "schedule": False}),
        ("table", {"source": "csv", "stages": "2"}, {"column": True, "schedule": True}),
        ("table", {"dataset": "rows"}, {"column": True, "schedule": False}),
        ("table", {"stages": "many"}, {"column": False, "schedule": False}),
    ],
    ids=str,
)
def test_a_field_is_hidden_where_its_kind_needs_what_is_not_said(
    ask_page: Ask, page: Page, kind: str, typed: dict[str, str], shown: dict[str, bool]
) -> None:
    ask_page("launch/fields.js", SWITCH, [kind])
    ask_page("launch/fields.js", "(fields, typed) => fields.fill(document.querySelector('form'), typed)", typed)
    ask_page("launch/fields.js", "(fields) => fields.showNeeded(document.querySelector('form'))")
    found: dict[str, Any] = {name: page.locator(f"[data-path={name}]").is_visible() for name in shown}
    assert found == shown


def test_a_plan_fills_text_and_checkboxes_and_what_is_not_there_is_passed_over(ask_page: Ask, page: Page) -> None:
    texts = {"stages": "4", "reshard": "", "elsewhere": "1"}
    ask_page("launch/fields.js", "(fields, texts) => fields.fill(document.querySelector('form'), texts)", texts)
    assert page.locator("[name=stages]").input_value() == "4"
    assert not page.locator("[name=reshard]").is_checked()
