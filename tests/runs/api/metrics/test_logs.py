from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.records.logs import search as log_search
from tests.runs.api.conftest import Api
from tests.spools import Spool

pytestmark = pytest.mark.django_db(databases="__all__")

PATHS = ("overview", "window", "locate?time=0", "line?id=a1.r0.o.0", "search?q=x", "download")


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    run = make_run()
    spools = [Spool(), Spool(), Spool()]
    frames = spools[0].logs([(1.0, "hello"), (2.0, "ERROR: boom"), (9.0, "x" * 5000)], rank=0)
    frames += spools[1].logs([(1.5, "WARNING: 🙂 boom"), (3.0, "RuntimeError: Straße")], rank=1, stream="stderr")
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frames))
    commit(run.pk, fence=2, source=Source("node1", "node-a"), batch=incoming(spools[2].logs([(20.0, "again")])))
    return run


Get = Callable[..., Any]


@pytest.fixture
def get(mate: Api, run: Run) -> Get:
    def fetch(path: str, status: int = 200) -> Any:
        answer = mate("GET", f"/runs/{run.pk}/logs{path}")
        assert answer.status_code == status, answer.content
        return answer.json()

    return fetch


def test_a_window_has_lines_by_their_place(get: Get) -> None:
    page = get("/window")
    assert (page["total"], page["start"], page["cursor"]) == (6, 0, 2)
    assert [item["id"] for item in page["items"]] == [
        "a1.r0.o.0", "a1.r1.e.0", "a1.r0.o.1", "a1.r1.e.1", "a1.r0.o.2", "a2.r0.o.0"
    ]  # fmt: skip
    assert page["items"][2] == {
        "id": "a1.r0.o.1", "rank": 0, "stream": "stdout", "attempt": 1, "time": 2.0, "level": "error",
        "text": "ERROR: boom", "index": 2,
    }  # fmt: skip


def test_a_long_line_is_cut_in_lists_and_whole_alone(get: Get) -> None:
    (item,) = get("/window?start=4&limit=1")["items"]
    assert (item["text"], item["length"]) == ("x" * 4000, 5000)
    assert get("/line?id=a1.r0.o.2")["text"] == "x" * 5000


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ("level=error", ["a1.r0.o.1", "a1.r1.e.1"]),
        ("level=error&level=warning&stream=stderr", ["a1.r1.e.0", "a1.r1.e.1"]),
        ("level=none&rank=0&rank=7", ["a1.r0.o.0", "a1.r0.o.2", "a2.r0.o.0"]),
        ("level=&attempt=2", ["a2.r0.o.0"]),
        ("attempt=3", []),
    ],
)
def test_filters_choose_lines(get: Get, filters: str, ids: list[str]) -> None:
    page = get(f"/window?start=-10&limit=10&{filters}")
    assert [item["id"] for item in page["items"]] == ids
    assert [item["index"] for item in page["items"]] == list(range(len(ids)))


def test_the_overview_counts_and_shows_the_first_error(get: Get) -> None:
    known = get("/overview?rank=0")
    assert known["total"] == 4
    assert known["ranks"] == {"0": 4, "1": 2}
    assert known["streams"] == {"stdout": 4, "stderr": 0, "build": 0}
    assert known["levels"] == {"": 3, "error": 1, "warning": 0, "info": 0, "debug": 0}
    assert known["attempts"] == {"1": 3, "2": 1}
    assert known["first_error"] == {"id": "a1.r0.o.1", "index": 1, "rank": 0, "time": 2.0}
    assert (known["first_time"], known["last_time"], known["cursor"]) == (1.0, 20.0, 2)
    assert known["marks"] == [[0, 0, 0], [1, 1, 0], [2, 0, 0], [3, 0, 0]]


def test_a_log_without_lines_has_an_overview_a_window_and_no_hits(mate: Api, make_run: Callable[..., Run]) -> None:
    path = f"/runs/{make_run().pk}/logs"
    known = mate("GET", f"{path}/overview").json()
    assert (known["total"], known["first_error"], known["first_time"], known["marks"]) == (0, None, None, [])
    assert mate("GET", f"{path}/window?start=-5").json() == {"total": 0, "start": 0, "items": [], "cursor": 0}
    assert mate("GET", f"{path}/search?q=x").json()["is_over"]
    assert mate("GET", f"{path}/locate?error=next").status_code == 404


def test_lines_moments_and_errors_are_located(get: Get) -> None:
    assert get("/locate?line=a1.r1.e.1") == {"index": 3, "id": "a1.r1.e.1"}
    assert get("/locate?time=2.5") == {"index": 3, "id": "a1.r1.e.1"}
    assert get("/locate?error=next")["index"] == 2
    assert get("/locate?error=next&from=2")["index"] == 3
    assert get("/locate?error=previous")["index"] == 3
    assert get("/locate?error=previous&from=3&level=error&stream=stderr")["index"] == 0
    for nowhere in (
        "line=a1.r1.e.2",
        "line=a1.r0.o.0&level=error",
        "time=21",
        "error=next&from=3",
        "error=next&level=info",
    ):
        get(f"/locate?{nowhere}", 404)


def test_every_rank_that_is_taken_has_lines_with_an_id(mate: Api, run: Run) -> None:
    frame = Spool().logs([(1.0, "far out")], rank=2**31 - 1)
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))
    (item,) = mate("GET", f"/runs/{run.pk}/logs/window?rank={2**31 - 1}").json()["items"]
    assert mate("GET", f"/runs/{run.pk}/logs/line?id={item['id']}").json()["text"] == "far out"
    assert mate("GET", f"/runs/{run.pk}/logs/line?id=a9999999999.r9999999999.o.0").status_code == 404


def test_a_search_marks_what_it_found(get: Get) -> None:
    page = get("/search?q=BOOM")
    assert [(item["id"], item["index"], item["spans"]) for item in page["items"]] == [
        ("a1.r1.e.0", 1, [[12, 16]]),  # the smile has two units
        ("a1.r0.o.1", 2, [[7, 11]]),
    ]
    assert (page["next"], page["num_scanned"], page["total"], page["is_over"]) == (None, 6, 6, True)
    assert [item["spans"] for item in get("/search?q=STRASSE")["items"]] == [[[14, 20]]]
    assert get("/search?q=BOOM&case=true")["items"] == []
    first = get(r"/search?q=^\w%2BError&regex=true&case=true&limit=1")
    assert [item["id"] for item in first["items"]] == ["a1.r1.e.1"]


def test_a_search_goes_on_where_it_stopped(get: Get) -> None:
    first = get("/search?q=boom&limit=1")
    assert ([item["index"] for item in first["items"]], first["num_scanned"], first["is_over"]) == ([1], 2, False)
    second = get(f"/search?q=boom&limit=1&after={first['next']}")
    assert [item["index"] for item in second["items"]] == [2]


def test_the_download_has_the_lines_that_fit(mate: Api, run: Run) -> None:
    answer = mate("GET", f"/runs/{run.pk}/logs/download?level=error&rank=0")
    assert b"".join(answer.streaming_content) == b"1970-01-01T00:00:02.000+00:00 rank 0 stdout: ERROR: boom\n"


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("window?limit=2001", "limit"),
        ("window?limit=0", "limit"),
        ("window?level=loud", "level"),
        ("window?stream=stdin", "stream"),
        ("window?rank=x", "rank"),
        ("locate", "line, time or error"),
        ("locate?line=a1.r0.o.0&time=1", "line, time or error"),
        ("locate?line=17", "'17' is no line's id"),
        ("locate?line=a1.r0.o.%D9%A1", "no line's id"),
        ("locate?error=last", "error"),
        ("locate?time=nan", "time"),
        ("line?id=", "no line's id"),
        ("search?q=", "q"),
        (f"search?q={'x' * 501}", "q"),
        ("search?q=(&regex=true", "missing )"),
        ("search?q=(?=x)&regex=true", "invalid perl operator"),
        (r"search?q=(\pL{100}){10}&regex=true", "too large"),
        ("search?q=x&after=zzz", "no cursor of this search"),
        ("search?q=x&after=W251bGxd", "no cursor of this search"),
        ("search?q=x&limit=501", "limit"),
        ("search?q=x&budget_ms=2001", "budget_ms"),
    ],
)
def test_what_is_wrong_is_said(mate: Api, run: Run, path: str, word: str) -> None:
    answer = mate("GET", f"/runs/{run.pk}/logs/{path}")
    assert answer.status_code == 422, answer.content
    assert word in str(answer.json())


def test_a_search_that_would_not_end_is_refused(mate: Api, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object, **__: object) -> None:
        raise log_search.TooSlow("this takes too long")

    monkeypatch.setattr(log_search, "search", search)
    answer = mate("GET", f"/runs/{run.pk}/logs/search?q=x")
    assert (answer.status_code, answer.json()["errors"]) == (422, [{"path": "q", "message": "this takes too long"}])
