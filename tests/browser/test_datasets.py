"""Data from the form to a run that trains on it, in one browser."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Seat
from tests.browser.places import write_table
from tests.whole.runs import Yard


@pytest.mark.extended
def test_data_is_added_looked_at_and_trained_on(seat: Seat, yard: Yard, open_folder: Path) -> None:
    table = open_folder / "trees.csv"
    page = seat.go("/data/new/")
    expect(page.get_by_label("Target")).to_be_visible()
    page.get_by_label("Kind").select_option("images")
    expect(page.get_by_label("Target")).to_be_hidden()
    page.get_by_label("Kind").select_option("csv")
    for label, text in (("Name", "saplings"), ("Location", str(table)), ("Target", "kind")):
        page.get_by_role("main").get_by_label(label, exact=True).fill(text)
    page.get_by_role("button", name="Add and check").click()
    main = page.get_by_role("main")
    expect(main.get_by_text("failed", exact=True)).to_be_visible()
    expect(main.get_by_role("status").filter(has_text="which is not on this machine")).to_be_visible()
    write_table(table)
    visits = len(seat.watch.visits)
    page.get_by_role("button", name="Check again").click()
    expect(main.get_by_text("ready", exact=True)).to_be_visible()
    expect(main.get_by_role("table").first).to_contain_text("<b>site</b>")
    expect(main.get_by_role("progressbar", name="Rows of class oak")).to_be_visible()
    assert seat.watch.visits[visits:] == [], "nothing was loaded again"
    page.get_by_role("link", name="Launch with it").click()
    expect(main.get_by_label("Dataset", exact=True)).to_have_value("saplings")
    main.get_by_label("Nodes", exact=True).fill("1")
    main.get_by_label("Steps", exact=True).fill("20")
    main.get_by_role("button", name="Launch", exact=True).click()
    expect(page.get_by_role("heading", name="saplings", level=1)).to_be_visible()
    run_id = urlsplit(page.url).path.rstrip("/").rpartition("/")[2]
    run = yard.wait_for_end(run_id)
    assert run["status"] == "SUCCEEDED", run["reason"]
    assert run["spec"]["task"]["data"]["digest"] == yard.get("/datasets", name="saplings")["items"][0]["digest"]
