"""A page is changed where it differs, and keeps what a person did."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.dashboard.js.conftest import Ask


def test_patching_changes_what_differs_and_keeps_what_a_person_did(page: Page, ask_page: Ask) -> None:
    fold = "<details><summary>more</summary></details>"
    before = f"<ul><li data-key=a><input type=checkbox>one</li><li data-key=b>two</li></ul>{fold}"
    after = f"<ul><li data-key=c>new</li><li data-key=a><input type=checkbox>uno</li></ul>{fold}"
    kept = ask_page(
        "live/patch.js",
        """({patch}, [before, after]) => {
            const place = document.getElementById("place");
            place.innerHTML = before;
            const box = place.querySelector("input");
            box.checked = true;
            box.focus();
            place.querySelector("details").open = true;
            patch(place, after);
            return [place.querySelector("input") === box, box.checked, document.activeElement === box,
                    place.querySelector("details").open, place.querySelector("ul").textContent];
        }""",
        [before, after],
    )
    assert kept == [True, True, True, True, "newuno"]
