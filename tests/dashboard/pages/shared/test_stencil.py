"""A template that is drawn once and filled in for each row: what a run is called stays text."""

from __future__ import annotations

from django.utils.safestring import mark_safe

from dashboard.pages.shared.stencil import stencil


def test_a_row_is_filled_in_and_escaped() -> None:
    square = stencil("nodes/_slot.html", ("colour", "url", "words"), is_seen=True)
    drawn = square.fill(colour=7, url=mark_safe("/runs/x/?a&b"), words="<b>& a\x00url\x00b")
    assert drawn.startswith('<a class="slot is-held series-7" href="/runs/x/?a&b"')
    assert 'title="&lt;b&gt;&amp; a\x00url\x00b"' in drawn, "what a row holds is filled in once"


def test_what_is_the_same_in_all_rows_is_drawn_with_the_template() -> None:
    assert "is-held" in stencil("nodes/_slot.html", ("words",), is_seen=False, is_held=True).fill(words="slot 0")
    assert "is-held" not in stencil("nodes/_slot.html", ("words",), is_seen=False, is_held=False).fill(words="slot 0")
