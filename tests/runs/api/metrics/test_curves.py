"""Points as columns, of many runs, of every attempt, and 304 while nothing came."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runs.api.metrics import columns
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run
from tests.cast import Cast
from tests.columns import read_columns
from tests.runs.api.conftest import Api
from tests.spools import Point, Spool, some_points

COLUMNS = "application/vnd.trainyard.columns"
LARGEST = 2**63 - 1


def logged(run: Run, *points: Point, name: str = "train/loss", fence: int = 1, **labels: str) -> Run:
    frames = incoming(Spool().points(points, name, **labels))
    commit(run.pk, fence=fence, source=Source("node1", "node-a"), batch=frames)
    return run


def same(one: Any, other: Any) -> bool:
    """Whether columns of both forms hold the same numbers."""
    return np.array_equal(np.array([float(number) for number in one]), np.asarray(other, float), equal_nan=True)


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    return logged(make_run(), *some_points(1, 100))


@pytest.mark.parametrize("points", [1500, 10])
def test_columns_hold_what_json_holds(mate: Api, run: Run, points: int) -> None:
    logged(run, (1, 5.0, math.nan), (2, 6.0, -math.inf), (2**53, 7.5, 0.1), name="odd", gpu="0")
    path = f"/runs/{run.pk}/series/data?points={points}"
    spoken, answer = mate("GET", path).json(), mate("GET", path, Accept=COLUMNS)
    assert answer["Content-Type"] == COLUMNS
    binary = read_columns(answer.content)
    assert binary["cursor"] == spoken["cursor"] == 2
    assert [part["kind"] for part in binary["series"]] == ["raw", "raw" if points > 100 else "buckets"]
    for one, other in zip(spoken["series"], binary["series"], strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert same(value, other[key]) if isinstance(value, list) else value == other[key], key


def test_an_integer_that_no_float_holds_travels_as_an_integer(mate: Api, run: Run) -> None:
    logged(run, (2**53 + 1, 1.0, 1.0), (LARGEST, 2.0, 2.0), name="far")
    (part,) = read_columns(mate("GET", f"/runs/{run.pk}/series/data?name=far&format=columns").content)["series"]
    assert part["step"].dtype == np.int64 and part["step"].tolist() == [2**53 + 1, LARGEST]
    asked = f"/runs/{run.pk}/series/data?name=far&from={2**53 + 1}&to={LARGEST - 1}"
    assert mate("GET", asked).json()["series"][0]["step"] == [2**53 + 1], "bounds are as exact"


def test_without_a_word_or_in_a_browser_the_answer_is_json(mate: Api, run: Run) -> None:
    for accept in ("", "*/*", "text/html,*/*;q=0.8", "application/json"):
        assert mate("GET", f"/runs/{run.pk}/series/data", Accept=accept)["Content-Type"] == "application/json", accept


def test_relative_seconds_count_from_the_start_of_the_run(mate: Api, run: Run) -> None:
    start = columns.origin_of(run)
    logged(run, *((step, start + step, 0.0) for step in range(10)), name="since")
    answer = mate("GET", f"/runs/{run.pk}/series/data?name=since&x=relative&from=3&to=5").json()
    assert answer["origin"] == start
    assert [at - start for at in answer["series"][0]["time"]] == pytest.approx([3, 4, 5])
    assert "origin" not in mate("GET", f"/runs/{run.pk}/series/data?name=since").json()


def test_what_was_trained_again_comes_when_asked_for_and_says_so(mate: Api, run: Run) -> None:
    logged(run, *some_points(61, 50), fence=2)
    path = f"/runs/{run.pk}/series/data"
    shown = mate("GET", path).json()["series"]
    assert [(part["attempt"], part["step"][0], part["step"][-1]) for part in shown] == [(1, 1, 60), (2, 61, 110)]
    assert all("superseded" not in part for part in shown)
    everything = mate("GET", f"{path}?attempts=all").json()["series"]
    hidden = [part for part in everything if part.get("superseded")]
    assert [part for part in everything if part not in hidden] == shown
    assert [(part["attempt"], part["step"]) for part in hidden] == [(1, list(range(61, 101)))]


def test_many_runs_come_in_one_answer(mate: Api, run: Run, make_run: Callable[..., Run]) -> None:
    other, empty = logged(make_run(), *some_points(5, 3)), make_run()
    path = f"/series/data?run={run.pk}&run={other.pk}&run={empty.pk}&run={run.pk}&name=train/loss"
    spoken = mate("GET", path).json()
    assert spoken["cursors"] == {run.pk: 1, other.pk: 1, empty.pk: 0}
    assert [(part["run"], len(part["step"])) for part in spoken["series"]] == [(run.pk, 100), (other.pk, 3)]
    binary = read_columns(mate("GET", path, Accept=COLUMNS).content)
    assert [(part["run"], part["step"].size) for part in binary["series"]] == [(run.pk, 100), (other.pk, 3)]
    origins = mate("GET", f"{path}&x=relative").json()["origins"]
    assert origins == {one.pk: columns.origin_of(one) for one in (run, other, empty)}


def test_the_series_of_many_runs_are_listed_in_one_answer(mate: Api, run: Run, make_run: Callable[..., Run]) -> None:
    other, empty = logged(make_run(), *some_points(5, 3), gpu="0"), make_run()
    items = mate("GET", f"/series?run={run.pk}&run={other.pk}&run={empty.pk}").json()["items"]
    names = mate("GET", f"/series?run={run.pk}&run={other.pk}&run={empty.pk}&names_only=true").json()["items"]
    assert names == [{name: item[name] for name in ("run", "name", "labels")} for item in items]
    known = {item["run"]: (item["name"], item["labels"], item["count"]) for item in items}
    assert known == {run.pk: ("train/loss", {}, 100), other.pk: ("train/loss", {"gpu": "0"}, 3)}


def test_of_many_names_some_are_asked_for_and_training_comes_first(mate: Api, run: Run) -> None:
    for name in ("a_layer/1", "b_layer/2", "val/loss"):
        logged(run, *some_points(1, 2), name=name)
    path = f"/series?run={run.pk}&names_only=true"
    asked = {
        "": ["a_layer/1", "b_layer/2", "train/loss", "val/loss"],
        "&limit=3": ["train/loss", "val/loss", "a_layer/1"],
        "&limit=1": ["train/loss"],
        "&match=LAYER": ["a_layer/1", "b_layer/2"],
        "&match=layer&limit=1": ["a_layer/1"],
        "&name=val/loss&name=nothing": ["val/loss"],
        "&match=%25": [],
    }
    for query, names in asked.items():
        assert [one["name"] for one in mate("GET", path + query).json()["items"]] == names, query
    logged(run, *some_points(1, 2), name="a_layer/1", rank="1")
    items = mate("GET", f"{path}&limit=5").json()["items"]  # as many series, of four names
    assert [one["name"] for one in items] == ["train/loss", "val/loss", "a_layer/1", "b_layer/2"]
    assert {one["labels"] for one in items} == {None}
    assert "limit" in mate("GET", f"{path}&limit=0").json()["detail"]


@pytest.mark.parametrize("path", ["/series", "/series/data"])
def test_one_run_that_one_may_not_see_hides_all_and_is_not_named(path: str, as_: Any, run: Run, cast: Cast) -> None:
    answer = as_("mate")("GET", f"{path}?run={run.pk}&run=nothing")
    assert answer.status_code == 404 and "nothing" not in answer.json()["detail"]


def test_too_much_for_one_answer_is_refused_with_the_limit(
    mate: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged(run, *some_points(1, 20), name="other", gpu="1")
    monkeypatch.setattr(columns, "MAX_ANSWER_POINTS", 60)
    path = f"/runs/{run.pk}/series/data"
    assert mate("GET", f"{path}?points=40").status_code == 200, "40 and 20"
    answer = mate("GET", f"{path}?points=41")
    assert answer.status_code == 422 and "61 points" in answer.json()["detail"]
    assert mate("GET", path, Accept="*/*").status_code == 422
    assert mate("GET", f"{path}?labels=%7B%22gpu%22:%221%22%7D").status_code == 200, "only what has the labels counts"


@pytest.mark.parametrize("query", ["", "name=x", "run=" + "&run=".join("abc" for _ in range(101))], ids=len)
def test_no_run_or_too_many_are_refused(mate: Api, query: str) -> None:
    assert mate("GET", f"/series/data?{query}").status_code == 422


@pytest.mark.parametrize("form", ["json", "columns"])
def test_nothing_is_sent_again_until_a_point_comes(
    mate: Api, run: Run, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/runs/{run.pk}/series/data?format={form}"
    first = mate("GET", path)
    assert first["Cache-Control"] == "private, no-cache"
    assert {"Accept", "Authorization", "Cookie"} <= set(first["Vary"].split(", "))
    with monkeypatch.context() as patch:
        patch.delattr(columns, "curves")  # no points are read
        again = mate("GET", path, If_None_Match=first["ETag"])
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert again["Cache-Control"] == "private, no-cache"
    logged(run, (101, 1.0, 1.0))
    newer = mate("GET", path, If_None_Match=first["ETag"])
    assert newer.status_code == 200 and newer["ETag"] != first["ETag"]


def test_every_other_question_has_another_tag(mate: Api, run: Run, make_run: Callable[..., Run]) -> None:
    other = logged(make_run(), *some_points(1, 100))
    queries = ["", "x=time", "x=relative", "points=9", "from=1", "to=1", "attempts=all", "format=columns", "name=a"]
    tags = [mate("GET", f"/runs/{run.pk}/series/data?{query}")["ETag"] for query in queries]
    tags.append(mate("GET", f"/runs/{other.pk}/series/data")["ETag"])
    assert len(set(tags)) == len(tags)


def test_a_tag_opens_nothing_for_who_may_not_see(as_: Any, run: Run) -> None:
    path = f"/runs/{run.pk}/series/data"
    tag = as_("mate")("GET", path)["ETag"]
    assert as_("outsider")("GET", path, If_None_Match=tag).status_code == 404
