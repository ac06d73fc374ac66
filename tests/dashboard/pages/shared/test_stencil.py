"""A template that is drawn once and filled in for each row: what a run is called stays text."""

from __future__ import annotations

from django.utils.safestring import mark_safe

from dashboard.pages.shared.stencil import stencil

NAMES = ("order", "url", "name", "needs", "reason", "since")


def test_a_row_is_filled_in_and_escaped() -> None:
    row = stencil("nodes/_queue_row.html", NAMES, is_seen=True)
    since = mark_safe("<time>now</time>")
    drawn = row.fill(order=7, url="/runs/x/", name="<b>&", needs="1 node × 2", reason="a\x00name\x00b", since=since)
    assert drawn.startswith('<tr data-key="queue-7">') and '<a class="name" href="/runs/x/">&lt;b&gt;&amp;</a>' in drawn
    assert "<time>now</time>" in drawn and "a\x00name\x00b" in drawn, "what a row holds is filled in once"


def test_what_is_the_same_in_all_rows_is_drawn_with_the_template() -> None:
    row = stencil("nodes/_queue_row.html", ("order", "needs", "reason", "since"), is_seen=False)
    assert "a run of another project" in row.fill(order=1, needs="", reason="–", since="")
