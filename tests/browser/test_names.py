"""A name that an older version took, with an override of the direction in it, turns nothing that stands beside it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.up_process import ROOT

# The left edges of the digits behind the name.
EDGES = """() => [0, 1, 2].map((index) => {
    const range = document.createRange();
    range.setStart(document.querySelector("p").lastChild, index + 1);
    range.setEnd(document.querySelector("p").lastChild, index + 2);
    return range.getBoundingClientRect().left;
})"""


@pytest.mark.parametrize("element", ["<a href='/'>{}</a>", "<span>{}</span>", "<b>{}</b>", "<i class=name>{}</i>"])
def test_what_follows_a_name_keeps_its_direction(browser: Browser, element: str) -> None:
    page = browser.new_page()
    page.set_content("<p>run " + element.format("a\u202eb") + " 123</p>")
    assert page.evaluate(EDGES) != sorted(page.evaluate(EDGES))
    page.add_style_tag(content=(ROOT / "static" / "css" / "base.css").read_text())
    assert page.evaluate(EDGES) == sorted(page.evaluate(EDGES))
    page.close()
