"""From a kind of task to a run of it, by the form; and what it would cost, while one types."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Seat
from tests.browser.test_launching import field


def kind(page: Page, name: str) -> None:
    page.get_by_role("radio", name=re.compile(f"^{name}")).check()


def test_each_kind_shows_its_own_fields_and_choices_alone(seat: Seat) -> None:
    page = seat.go("/launch/")
    data = field(page, "Data")
    for name, shown, hidden in (
        ("Tabular", ("Layers", "Optimizer"), ("Context", "Heads", "Architecture", "Script", "Target")),
        ("Image classifier", ("Architecture", "Layers"), ("Heads", "Patch", "Context")),
        ("Communication benchmark", ("Repeats", "Nodes"), ("Layers", "Steps", "Data degree", "Checkpoint every")),
        ("Script", ("Script", "Nodes"), ("Repeats", "Layers", "Steps")),
        ("Language model", ("Context", "Heads"), ("Architecture", "Patch", "Repeats")),
    ):
        kind(page, name)
        for label in shown:
            expect(field(page, label)).to_be_visible()
        for label in hidden:
            expect(field(page, label)).to_be_hidden()
    kind(page, "Tabular")
    expect(data).to_have_value("breast-cancer")
    assert "python-stdlib" not in data.locator("option:not([disabled])").all_inner_texts()
    data.select_option("csv")
    expect(field(page, "Target")).to_be_visible()
    kind(page, "Image classifier")
    expect(data).to_have_value("digits")
    field(page, "Architecture").select_option("vit")
    expect(field(page, "Patch")).to_be_visible()
    expect(page.get_by_label("Spec as YAML")).to_contain_text("architecture: vit")


def test_a_table_is_launched_from_the_form_and_shows_its_plan(seat: Seat) -> None:
    page = seat.go("/launch/")
    page.get_by_role("button", name=re.compile("^From")).click()
    page.get_by_role("link", name="breast-cancer", exact=True).click()
    expect(field(page, "Data")).to_have_value("breast-cancer")
    for label, text in {"Name": "by-form", "Nodes": "1", "Steps": "12"}.items():
        field(page, label).fill(text)
    page.get_by_role("main").get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("heading", name="by-form", level=1)).to_be_visible()
    expect(page.get_by_role("main").get_by_text("succeeded", exact=True)).to_be_visible()
    page.get_by_role("link", name="Plan", exact=True).click()
    step = page.get_by_role("row", name=re.compile("^A whole step"))
    expect(step.get_by_role("cell")).to_have_count(4)
    assert [re.search(r"\d", text) is not None for text in step.get_by_role("cell").all_inner_texts()[1:3]] == [
        True
    ] * 2


def test_the_cost_follows_what_is_typed_and_a_better_plan_fills_the_form(seat: Seat) -> None:
    page = seat.go("/launch/")
    cost = page.get_by_role("region", name="Cost", exact=True)
    bars = cost.get_by_role("img", name=re.compile("^(Each|Rank)"))
    field(page, "Nodes").fill("2")
    field(page, "Steps").fill("123")
    expect(cost.get_by_text("All 123 steps")).to_be_visible()
    expect(bars).to_have_count(1)
    field(page, "Pipeline stages").fill("2")
    expect(bars).to_have_count(2)
    expect(cost.get_by_text("Pipeline bubble")).to_be_visible()
    better = page.get_by_role("button", name=re.compile("^Apply the plan: .*pipeline stages 1"))
    better.click()
    expect(field(page, "Pipeline stages")).to_have_value("1")
    expect(field(page, "Steps")).to_have_value("123")
    expect(bars).to_have_count(1)
    field(page, "Width").fill("100000")
    expect(cost).to_have_count(0)
    field(page, "Width").fill("4096")
    expect(cost).to_be_visible()


def test_whoever_has_no_measurement_is_led_to_the_benchmark_of_the_same_shape(seat: Seat) -> None:
    page = seat.go("/launch/")
    field(page, "Nodes").fill("2")
    page.get_by_role("link", name=re.compile("^Measure (them|again)")).click()
    expect(page.get_by_role("radio", name=re.compile("^Communication benchmark"))).to_be_checked()
    expect(field(page, "Nodes")).to_have_value("2")
    expect(page.get_by_role("checkbox", name="all-reduce")).to_be_checked()
    for name in ("all-reduce", "all-gather", "reduce-scatter", "send-receive", "ring", "parameter-server"):
        page.get_by_role("checkbox", name=name, exact=True).uncheck()
    expect(page.get_by_label("Spec as YAML")).to_contain_text("operations:\n  - compute\n")
