"""Whatever comes in whatever order, and however it was put together since: every way to read a log says the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from runs.records.deltas import delta
from runs.records.logs import search as log_search
from runs.records.logs import windows as log_windows
from runs.records.logs.chunks import Places
from runs.records.logs.compaction import fold_lines
from runs.records.logs.index import Index, Refs
from runs.records.logs.levels import CODES, NAMES, level_of
from runs.records.logs.lines import STREAMS, Filters, line_id
from runs.records.logs.patterns import literal, regex
from runs.records.logs.read import read_logs
from runs.records.metrics.codec import Floats
from runs.records.metrics.models import LogChunk, Telemetry
from runs.records.points import store

pytestmark = pytest.mark.django_db(databases="__all__")

TEXTS = (
    "step 1",
    "ERROR: boom",
    "WARNING: low",
    "INFO: hi",
    "Straße",
    "needle",
    "",
    "ValueError: x",
    "a\u2028b",
    "🙂 needle",
)
Line = dict[str, Any]


class Writer:
    """Writes random batches and knows every line by its key."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cursor = 0
        self.streams: dict[tuple[int, int, int], list[tuple[float, float, str]]] = {}
        self.batches: list[list[str]] = []

    def write(self) -> None:
        self.cursor += 1
        attempt = self.random.choice((1, 1, 2))
        parts, ids = [], []
        for _ in range(self.random.randint(1, 4)):
            rank, stream = self.random.randint(-1, 2), self.random.randint(0, 1)
            known = self.streams.setdefault((attempt, rank, stream), [])
            lines = []
            for _ in range(self.random.choice((1, 1, 3, 30))):
                time = float(self.random.randint(0, 60))
                before = known[-1][0] if known else float("-inf")
                text = self.random.choice(TEXTS)
                ids.append(f"a{attempt}.r{rank}.{'oe'[stream]}.{len(known)}")
                known.append((max(before, time), time, text))
                lines.append((time, text))
            parts.append(store.StreamLines(rank, STREAMS[stream], lines))
        store.write_lines("run1", attempt=attempt, cursor=self.cursor, lines=parts)
        Telemetry.objects.update_or_create(run_id="run1", defaults={"cursor": self.cursor})
        self.batches.append(ids)

    def lines(self, filters: Filters) -> list[Line]:
        found = []
        for (attempt, rank, stream), known in self.streams.items():
            for number, (placed, time, text) in enumerate(known):
                level = level_of(text)
                is_wanted = (
                    (not filters.ranks or rank in filters.ranks)
                    and (not filters.stream or filters.stream == STREAMS[stream])
                    and (not filters.levels or level in filters.levels)
                    and filters.attempt in (None, attempt)
                )
                if is_wanted:
                    line = {
                        "id": f"a{attempt}.r{rank}.{'oe'[stream]}.{number}", "rank": rank, "stream": STREAMS[stream],
                        "attempt": attempt, "time": time, "level": NAMES[level], "text": text,
                    }  # fmt: skip
                    found.append(((placed, attempt, rank, stream, number), line))
        found.sort(key=lambda pair: pair[0])
        return [{**line, "index": index} for index, (_, line) in enumerate(found)]


FILTERS = (
    Filters(),
    Filters(ranks={0, 2}),
    Filters(stream="stderr"),
    Filters(levels={CODES["error"]}),
    Filters(levels={CODES[""], CODES["warning"]}, ranks={1}, attempt=1),
    Filters(attempt=2),
    Filters(ranks={77}),
)


@pytest.fixture(params=range(2))
def writer(request: pytest.FixtureRequest) -> Writer:
    writer = Writer(request.param)
    for _ in range(30):
        writer.write()
        if writer.random.random() < 0.2:
            fold_lines("run1", writer.cursor - writer.random.randint(0, 5), is_quiet=writer.random.random() < 0.7)
    return writer


def test_windows_are_the_lines_in_their_order(writer: Writer) -> None:
    for filters in FILTERS:
        wanted = writer.lines(filters)
        page = log_windows.window("run1", 0, len(wanted) + 5, filters)
        assert page == {"total": len(wanted), "start": 0, "items": wanted, "cursor": writer.cursor}
        for start in range(0, len(wanted), max(1, len(wanted) // 7)):
            assert log_windows.window("run1", start, 9, filters)["items"] == wanted[start : start + 9]
        assert log_windows.window("run1", -4, 100, filters)["items"] == wanted[-4:]


def test_every_line_is_found_by_its_id_and_nothing_else(writer: Writer) -> None:
    for filters in FILTERS:
        wanted = {line["id"]: line["index"] for line in writer.lines(filters)}
        every = writer.lines(Filters())
        for line in writer.random.sample(every, 40):
            found = log_windows.locate("run1", line_id(line["id"]), filters)
            assert (found and found["index"]) == wanted.get(line["id"])
            assert log_windows.whole_line("run1", line_id(line["id"])) == {
                k: v for k, v in line.items() if k != "index"
            }
        assert log_windows.locate("run1", line_id("a1.r0.o.99999"), filters) is None
        assert log_windows.whole_line("run1", line_id("a9.r0.o.0")) is None


def test_errors_and_moments_are_found_from_any_place(writer: Writer) -> None:
    for filters in FILTERS:
        wanted = writer.lines(filters)
        errors = [line["index"] for line in wanted if line["level"] == "error"]
        for place in (-1, 0, 1, len(wanted) // 2, len(wanted) - 1, len(wanted), len(wanted) + 10):
            behind = log_windows.locate_error("run1", place, filters, is_next=True)
            assert (behind and behind["index"]) == min((index for index in errors if index > place), default=None)
            before = log_windows.locate_error("run1", place, filters, is_next=False)
            assert (before and before["index"]) == max((index for index in errors if index < place), default=None)
        whole = log_windows.window("run1", 0, 5000, filters)["items"]
        found = log_windows.locate_time("run1", 1e9, filters)
        assert found is None
        found = log_windows.locate_time("run1", 0.0, filters)
        assert (found and found["id"]) == (whole[0]["id"] if whole else None)


def test_the_overview_counts_what_a_filter_less_would_show(writer: Writer) -> None:
    for filters in FILTERS:
        wanted = writer.lines(filters)
        known = log_windows.overview("run1", filters)
        assert known["total"] == len(wanted)
        for facet, field, less in (
            ("levels", "level", Filters(filters.ranks, filters.stream, (), filters.attempt)),
            ("ranks", "rank", Filters((), filters.stream, filters.levels, filters.attempt)),
            ("streams", "stream", Filters(filters.ranks, "", filters.levels, filters.attempt)),
            ("attempts", "attempt", Filters(filters.ranks, filters.stream, filters.levels, None)),
        ):
            counted: dict[Any, int] = {}
            for line in writer.lines(less):
                counted[line[field]] = counted.get(line[field], 0) + 1
            assert {value: count for value, count in known[facet].items() if count} == counted, facet
        errors = [line for line in wanted if line["level"] == "error"]
        first = known["first_error"]
        assert (first and (first["id"], first["index"])) == ((errors[0]["id"], errors[0]["index"]) if errors else None)
        marked = known["marks"]
        assert len(marked) == min(200, len(wanted))
        for number, (start, num_errors, num_warnings) in enumerate(marked):
            end = marked[number + 1][0] if number + 1 < len(marked) else len(wanted)
            levels = [line["level"] for line in wanted[start:end]]
            assert (levels.count("error"), levels.count("warning")) == (num_errors, num_warnings)


@pytest.mark.parametrize(("limit", "budget_s"), [(4, 10.0), (1000, 0.0), (1000, 10.0)])
def test_a_search_gives_each_hit_once_in_order(writer: Writer, limit: int, budget_s: float) -> None:
    for filters in FILTERS:
        for pattern, is_hit in (
            (literal("NEEDLE", is_case=False), lambda text: "needle" in text),
            (literal("STRASSE", is_case=False), lambda text: text == "Straße"),
            (regex("^.tep|x$", is_case=True), lambda text: text in ("step 1", "ValueError: x")),
        ):
            wanted = [line for line in writer.lines(filters) if is_hit(line["text"])]
            found, after, scanned = [], "", 0
            for _ in range(2000):
                page = log_search.search("run1", pattern, filters, after=after, limit=limit, budget_s=budget_s)
                found += page["items"]
                assert page["num_scanned"] >= scanned and page["is_over"] == (page["next"] is None)
                scanned, after = page["num_scanned"], page["next"]
                fold_lines("run1", writer.cursor, is_quiet=True)
                if after is None:
                    break
            assert after is None and scanned == page["total"] == len(writer.lines(filters))
            assert [{name: hit[name] for name in hit if name != "spans"} for hit in found] == wanted


def test_who_follows_gets_each_line_once_whatever_is_put_together_meanwhile() -> None:
    writer, cursor, found = Writer(99), None, []
    for _ in range(40):
        writer.write()
        for _ in range(writer.random.randint(0, 3)):
            page = read_logs("run1", after=cursor, limit=writer.random.choice((1, 7, 500)))
            found += [item["id"] for item in page["items"]]
            cursor = page["cursor"]
        if writer.random.random() < 0.4:
            fold_lines("run1", writer.cursor, is_quiet=True)
    for _ in range(5000):
        page = read_logs("run1", after=cursor, limit=100)
        found += [item["id"] for item in page["items"]]
        cursor = page["cursor"]
        if page["next"] is None and not page["items"]:
            break
    assert sorted(found) == sorted(line["id"] for line in writer.lines(Filters()))


def test_changes_since_any_cursor_are_exact_after_compaction(writer: Writer) -> None:
    fold_lines("run1", writer.cursor, is_quiet=True)
    counts = [len(ids) for ids in writer.batches]
    for cursor in range(writer.cursor + 1):
        assert len(delta.delta_since("run1", cursor).lines) == sum(counts[cursor:])


def test_all_of_it_is_put_together_in_the_end(writer: Writer) -> None:
    for _ in range(100):
        if not fold_lines("run1", writer.cursor, is_quiet=True):
            break
    assert LogChunk.objects.count() == len(writer.streams)


def write_at(*times: float) -> None:
    """Lines of a rank each that begin at these times and overlap."""
    lines = [
        store.StreamLines(rank, "stdout", [(at, "needle"), (99.0 + rank, "needle")]) for rank, at in enumerate(times)
    ]
    store.write_lines("run1", attempt=1, cursor=1, lines=lines)
    Telemetry.objects.create(run_id="run1", cursor=1)


def test_a_search_that_takes_far_too_long_stops_where_it_can_be_gone_on(monkeypatch: pytest.MonkeyPatch) -> None:
    write_at(1.0, 2.0, 3.0)
    find = literal("needle", is_case=True)
    assert log_search.search("run1", find, Filters(), budget_s=0)["is_over"]
    monkeypatch.setattr(log_search, "OVERRUN_S", 0)
    page = log_search.search("run1", find, Filters(), budget_s=0)
    assert ([item["time"] for item in page["items"]], page["is_over"]) == ([1.0], False)


def test_a_search_that_takes_far_too_long_and_cannot_stop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    write_at(1.0, 1.0, 1.0)
    monkeypatch.setattr(log_search, "OVERRUN_S", 0)
    with pytest.raises(log_search.TooSlow, match="too long"):
        log_search.search("run1", literal("needle", is_case=True), Filters(), budget_s=0)


def test_marks_are_the_same_in_both_ways_and_cheap_where_many_ranks_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    num_ranks, num_lines = 60, 200
    store.write_lines(
        "run1",
        attempt=1,
        cursor=1,
        lines=[
            store.StreamLines(rank, "stdout", [(float(at), TEXTS[(at + rank) % 3]) for at in range(num_lines)])
            for rank in range(num_ranks)
        ],
    )
    Telemetry.objects.create(run_id="run1", cursor=1)
    looked_up = 0
    ordinals = Index.ordinals

    def counted(index: Index, refs: Refs, times: Floats) -> Places:
        nonlocal looked_up
        looked_up += refs.rows.size
        return ordinals(index, refs, times)

    monkeypatch.setattr(Index, "ordinals", counted)
    for filters in (Filters(), Filters(levels=frozenset({CODES["error"], CODES["info"]}))):
        at_once = log_windows.overview("run1", filters)["marks"]
        assert looked_up < 10
        with monkeypatch.context() as other:
            other.setattr(log_windows, "MAX_SORTED", 0)
            assert log_windows.overview("run1", filters)["marks"] == at_once
        assert looked_up > 1000
        looked_up = 0
