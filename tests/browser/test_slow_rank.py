"""A rank that is slow is said in the header of its run's page while it lasts, whichever tab is open."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Seat
from tests.whole.runs import Yard
from tests.whole.test_stragglers import endless, slowed


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_the_header_names_a_slow_rank_while_it_is_slow(seat: Seat, office: Yard) -> None:
    run = office.submit(endless("slow-rank"))
    office.wait_for_step(run, 100)
    page = seat.go(f"/runs/{run}/spec/")
    note = page.get_by_role("region", name="A slow rank")
    placements = office.get(f"/runs/{run}/attempts")["items"][-1]["placements"]
    pid = next(one["pid"] for place in placements for one in place["ranks"] if one["rank"] == 1)
    with slowed(pid):
        note.wait_for(timeout=120_000)
        assert note.inner_text().startswith("Rank 1 on "), note.inner_text()
    note.wait_for(state="detached", timeout=120_000)
    office.post(f"/runs/{run}/stop")
    office.wait_for_end(run)
