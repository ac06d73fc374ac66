"""Words over steps: stretches of the same word, a row for each run, below the charts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from dashboard.pages.shared.chart_runs import band_panels
from runs.models import Project, Run, User
from runs.records.media import store
from runs.records.media.store import Item, Totals
from tests.cast import Cast
from tests.series import write_series

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]
AsUser = Callable[[User], Client]


def write_words(run: Run, *words: tuple[int, str], name: str = "phase") -> None:
    items = [(0, Item(name, {}, "{}", "text", step, 1000.0 + step, {}, said.encode())) for step, said in words]
    store.write_media(run.pk, attempt=1, cursor=1, items=items, totals=Totals(), at_most=Totals(1000, 2**30))


def test_equal_words_are_one_stretch_up_to_the_next_and_the_last_up_to_where_the_run_is(make_run: MakeRun) -> None:
    run = make_run()
    write_series(run, "train/loss", [1.0] * 50)
    write_words(run, (0, "warmup"), (10, "train"), (20, "train"), (40, "warmup"))
    [(name, [row], colours)] = band_panels([run])
    assert (name, colours) == ("phase", {"warmup": 1, "train": 2})
    assert [(one.words, one.colour) for one in row.bands] == [
        ("warmup: steps 0 to 10", 1), ("train: steps 10 to 40", 2), ("warmup: steps 40 to 50", 1),
    ]  # fmt: skip


def test_a_run_without_points_ends_a_step_after_its_last_word(make_run: MakeRun) -> None:
    run = make_run()
    write_words(run, (7, "eval"))
    [(_, [row], _)] = band_panels([run])
    assert [(one.first, one.end) for one in row.bands] == [(7, 8)]
    assert band_panels([make_run(name="silent")]) == []


def test_runs_side_by_side_have_a_row_each_and_a_word_one_colour(make_run: MakeRun) -> None:
    one, two = make_run(name="one"), make_run(name="two")
    write_words(one, (0, "a"), (5, "b"))
    write_words(two, (0, "b"))
    write_words(two, *((step, f"word {step}") for step in range(12)), name="many")
    (_, [many], colours), (_, rows, _) = band_panels([one, two])
    assert {row.label: [(band.text, band.colour) for band in row.bands] for row in rows} == {
        "one": [("a", 1), ("b", 2)], "two": [("b", 2)],
    }  # fmt: skip
    assert (len(colours), many.bands[10].colour) == (12, 1)


def test_pages_have_them_without_markup_of_others_and_fetch_them_again(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run, other = make_run(), make_run(name="<i>other", project=Project.objects.create(name="elsewhere"))
    write_words(run, (0, "<b>warm"), name="<u>phase")
    write_words(other, (0, "secret"))
    client = as_user(cast.viewer)
    for address in (
        f"/runs/{run.pk}/",
        f"/runs/{run.pk}/?fragment=bands",
        f"/runs/compare/?run={run.pk}&run={other.pk}",
    ):
        text = client.get(address).content.decode()
        assert "&lt;u&gt;phase" in text and "&lt;b&gt;warm: steps 0 to 1" in text and "secret" not in text
    again = re.search(r'data-fragment="(\?[^"]*fragment=bands)"', text)
    assert again
    part = client.get(f"/runs/compare/{again[1].replace('&amp;', '&')}").content.decode()
    assert "&lt;b&gt;warm" in part and "<html" not in part
    assert client.get(f"/runs/{other.pk}/?fragment=bands").status_code == 404
