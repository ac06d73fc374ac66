"""Media in the store: what is read is what was written, the newest attempt wins, and it goes with its run."""

from __future__ import annotations

import numpy as np
import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.records.media import read, store
from runs.records.media.kinds import Histogram
from runs.records.media.read import MAX_COMMON_BINS, rebinned
from runs.records.media.store import Item, Totals
from runs.records.metrics import erase
from runs.records.metrics.models import Media, Telemetry

pytestmark = pytest.mark.django_db(databases="__all__")

PLENTY = Totals(1_000_000, 2**40)


def write(*items: tuple[int, str], run: str = "run1", attempt: int = 1, rank: int = 0, name: str = "story") -> None:
    found = [(rank, Item(name, {}, "{}", "text", step, float(step), {}, said.encode())) for step, said in items]
    store.write_media(run, attempt=attempt, cursor=1, items=found, totals=Totals(), at_most=PLENTY)


def seen(**more: bool) -> list[tuple[int, int, bool]]:
    items, _ = read.steps_of("run1", "story", {}, **more)
    return [(item["step"], item["attempt"], item["superseded"]) for item in items]


def test_what_is_written_is_read_and_takes_less_room() -> None:
    text = "the same again " * 10_000
    write((5, text))
    row = Media.objects.get()
    assert read.content(row) == {"text": text}
    assert row.size == len(text) and len(bytes(row.data)) < len(text) / 50
    assert (store.totals_of("run1").num_items, store.totals_of("run1").num_bytes) == (1, len(text))
    assert store.totals_of("run2") == Totals()


def test_an_attempt_hides_older_ones_from_its_own_first_step_on() -> None:
    write((0, "a"), (10, "b"), (20, "c"), (30, "d"))
    write((20, "e"), (40, "f"), attempt=2)
    write((35, "g"), attempt=3)
    assert seen() == [(0, 1, False), (10, 1, False), (20, 2, False), (35, 3, False)]
    hidden = [(20, 1, True), (30, 1, True), (40, 2, True)]
    assert sorted(seen(is_all=True)) == sorted(seen() + hidden)
    (name,) = read.media_list("run1")
    assert (name["count"], name["first_step"], name["last_step"]) == (4, 0, 35)


def test_names_and_ranks_do_not_hide_each_other() -> None:
    write((10, "a"))
    write((0, "b"), attempt=2, name="other")
    write((10, "c"), rank=1)
    assert seen() == [(10, 1, False)] * 2


def test_beyond_the_limit_nothing_is_written_and_the_rest_is_counted() -> None:
    items = [(0, Item("story", {}, "{}", "text", step, 0.0, {}, b"x" * 10)) for step in range(5)]
    totals = Totals()
    assert store.write_media("run1", attempt=1, cursor=1, items=items, totals=totals, at_most=Totals(10, 35)) == (3, 2)
    assert totals == Totals(3, 30)


def test_listing_thousands_takes_few_queries_and_reads_no_data(django_assert_max_num_queries: object) -> None:
    write(*((step, "x" * 100) for step in range(3_000)))
    with django_assert_max_num_queries(8, connection=connections[Media.objects.db]):  # type: ignore[operator]
        items, is_thinned = read.steps_of("run1", "story", {})
    assert is_thinned and len(items) == 2_000
    assert (items[0]["step"], items[-1]["step"]) == (0, 2_999)
    gaps = np.diff([item["step"] for item in items])
    assert set(gaps.tolist()) <= {1, 2}
    assert read.media_list("run1") == [
        {"name": "story", "labels": {}, "kind": "text", "count": 3_000, "first_step": 0, "last_step": 2_999}
    ]


def test_they_go_with_their_run_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("run1", "run2"):
        Telemetry.objects.create(run_id=run, cursor=1)
        write(*((step, "x") for step in range(23)), run=run)
    monkeypatch.setattr(erase, "AT_ONCE_S", 0.0)
    erase.delete_run_data("run1")
    numbers = []
    while erase.sweep(0.0):
        numbers.append(Media.objects.filter(run_id="run1").count())
    assert len(numbers) > 3 and numbers == sorted(numbers, reverse=True)
    assert Media.objects.filter(run_id="run1").count() == 0
    assert Media.objects.filter(run_id="run2").count() == 23


def test_of_many_ranks_fewer_steps_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_HISTOGRAMS", 10)
    data = np.array([0.0, 1.0, 2.0]).tobytes()  # two edges, and a count of 2
    for rank in range(3):
        found = [(rank, Item("w", {}, "{}", "histogram", step, 1.0, {}, data)) for step in range(50) for _ in (1, 2)]
        store.write_media("run1", attempt=1, cursor=1, items=found, totals=Totals(), at_most=PLENTY)
    answer = read.histograms("run1", "w", {}, 50)
    assert (answer["steps"], answer["counts"], answer["thinned"]) == ([0, 24, 49], [[6.0]] * 3, True)
    assert len(read.histograms("run1", "w", {}, 2)["steps"]) == 2


finite = st.floats(-1e6, 1e6)
histograms = st.lists(
    st.tuples(
        st.lists(finite, min_size=2, max_size=20, unique=True).map(sorted),
        st.lists(st.integers(0, 1000), min_size=19, max_size=19),
    ).map(lambda pair: Histogram(np.array(pair[0]), np.array(pair[1][: len(pair[0]) - 1], float))),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no reason to fail
@given(histograms)
def test_on_common_edges_nothing_is_lost_and_nothing_moves_out_of_its_bin(many: list[Histogram]) -> None:
    edges, columns = rebinned(many)
    assert edges.size - 1 <= MAX_COMMON_BINS
    for histogram, counts in zip(many, columns, strict=True):
        assert counts.size == edges.size - 1
        assert np.isclose(counts.sum(), histogram.counts.sum())
        assert (counts >= 0).all()
        for edge in edges:  # below each common edge lie the whole bins below it, and no bin that begins above
            below = counts[edges[1:] <= edge].sum()
            slack = 1e-6 * (1 + histogram.counts.sum())
            assert histogram.counts[histogram.edges[1:] <= edge].sum() <= below + slack
            assert below <= histogram.counts[histogram.edges[:-1] < edge].sum() + slack


def test_a_histogram_of_nothing_does_not_widen_the_edges() -> None:
    some = Histogram(np.array([5.0, 6.0, 7.0]), np.array([1.0, 1.0]))
    nothing = Histogram(np.array([0.0, 1.0]), np.array([0.0]))
    edges, columns = rebinned([nothing, some])
    assert (edges[0], edges[-1]) == (5.0, 7.0)
    assert [counts.sum() for counts in columns] == [0.0, 2.0]
    assert rebinned([nothing])[0].tolist() == [0.0, 1.0]


def test_words_are_texts_that_are_all_short_as_the_newest_attempt_has_them() -> None:
    write((0, "warmup"), (10, "train"), (30, "anneal"), name="phase")
    write((20, "train"), (25, "cool <b>"), attempt=2, name="phase")
    write((0, "elsewhere"), rank=3, name="phase")
    write((0, "short"), (5, "x" * 81), name="samples")
    write(*((step, str(step)) for step in range(read.MAX_WORDS + 1)), name="steps")
    write((7, "eval"), run="run2", name="phase")
    write((7, "other"), run="run3", name="phase")
    found = read.words(["run1", "run2"], 10)
    assert {key: [(word.text, word.step) for word in words] for key, words in found.items()} == {
        ("phase", "run1", "{}"): [("warmup", 0), ("train", 10), ("train", 20), ("cool <b>", 25)],
        ("phase", "run2", "{}"): [("eval", 7)],
    }
    assert len(read.words(["run1", "run2"], 1)) == 1 and read.words(["run9"], 1) == {}
