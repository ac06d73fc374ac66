"""``/runs/{id}/media``: what was logged comes back to those who may see the run, and as nothing that runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.records.media import read
from tests.cast import Cast, make_run
from tests.media import BEEP, CLIP, PIXEL, audio, histogram, image, table, text, video
from tests.runs.api.conftest import Api
from tests.spools import Spool


def log(run: Run, *payloads: dict[str, Any], fence: int = 1, rank: int = 0) -> None:
    spool = Spool()
    spool.begin(rank=rank)
    for payload in payloads:
        spool.put("media", payload)
    commit(run.pk, fence=fence, source=Source("node1", "node-a"), batch=incoming(spool.bytes))


@pytest.fixture
def run(cast: Cast) -> Run:
    run = make_run(cast)
    images = (image(step, labels={"index": str(index)}) for step in (10, 20) for index in (0, 1))
    log(run, *images, histogram(10), text(10), table(10, rows=((1, "x"), (None, math.inf))))
    return run


def steps(api: Api, run: Run, query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api("GET", f"/runs/{run.pk}/media/steps?{query}").json()["items"]
    return items


def id_of(api: Api, run: Run, name: str) -> int:
    return int(steps(api, run, f"name={name}")[0]["id"])


def test_the_names_are_listed_with_their_labels_kinds_and_steps(mate: Api, run: Run) -> None:
    answer = mate("GET", f"/runs/{run.pk}/media").json()
    assert answer["next"] is None
    one = {"count": 1, "first_step": 10, "last_step": 10, "labels": {}}
    assert answer["items"] == [
        {"name": "confusion", "kind": "table", **one},
        {"name": "samples", "kind": "image", "labels": {"index": "0"}, "count": 2, "first_step": 10, "last_step": 20},
        {"name": "samples", "kind": "image", "labels": {"index": "1"}, "count": 2, "first_step": 10, "last_step": 20},
        {"name": "story", "kind": "text", **one},
        {"name": "weights", "kind": "histogram", **one},
    ]


def test_the_steps_of_a_name_come_without_their_data(mate: Api, run: Run) -> None:
    answer = mate("GET", f'/runs/{run.pk}/media/steps?name=samples&labels={{"index":"1"}}').json()
    assert (answer["thinned"], answer["cursor"]) == (False, 1)
    first, second = answer["items"]
    assert (first["step"], second["step"]) == (10, 20)
    assert {**first, "id": 0} == {
        "id": 0, "kind": "image", "step": 10, "time": 1010.0, "attempt": 1, "rank": 0, "size": len(PIXEL),
        "meta": {"caption": "a cat", "width": 2, "height": 3, "format": "png"}, "superseded": False,
    }  # fmt: skip
    assert steps(mate, run, "name=samples") == []  # labels are those that are asked for, and no others


def test_a_histogram_a_text_and_a_table_come_as_json(mate: Api, run: Run) -> None:
    found = {}
    for name in ("weights", "story", "confusion"):
        answer = mate("GET", f"/runs/{run.pk}/media/{id_of(mate, run, name)}")
        assert answer.status_code == 200
        found[name] = answer.json()
    assert found["weights"]["histogram"] == {"edges": [0, 1, 2], "counts": [3, 5]}
    assert found["story"]["text"] == "once upon a time"
    assert found["confusion"]["table"] == {"columns": ["a", "b"], "rows": [[1, "x"], [None, "Infinity"]]}
    assert (found["story"]["name"], found["story"]["step"], found["story"]["kind"]) == ("story", 10, "text")
    assert "table" not in found["story"]


def test_an_image_is_the_file_that_was_logged_and_nothing_that_runs(mate: Api, run: Run) -> None:
    number = steps(mate, run, 'name=samples&labels={"index":"0"}')[0]["id"]
    answer = mate("GET", f"/runs/{run.pk}/media/{number}/file")
    assert answer.content == PIXEL
    assert answer["Content-Type"] == "image/png"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"].startswith("sandbox")
    assert answer["Content-Disposition"] == 'inline; filename="samples-10.png"'


@pytest.mark.parametrize(
    ("logged", "name", "data", "form"),
    [(audio(3), "speech", BEEP, "audio/wav"), (video(3), "clip", CLIP, "video/mp4")],
    ids=["sound", "video"],
)
def test_a_sound_or_video_is_the_file_that_was_logged_and_nothing_that_runs(
    cast: Cast, mate: Api, logged: Any, name: str, data: bytes, form: str
) -> None:
    run = make_run(cast)
    log(run, logged)
    answer = mate("GET", f"/runs/{run.pk}/media/{id_of(mate, run, name)}/file")
    assert (answer.content, answer["Content-Type"]) == (data, form)
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"].startswith("sandbox")
    assert answer["Content-Disposition"] == f'inline; filename="{name}-3.{form.partition("/")[2]}"'


def test_what_a_browser_has_it_keeps(mate: Api, run: Run) -> None:
    number = id_of(mate, run, "story")
    first = mate("GET", f"/runs/{run.pk}/media/{number}")
    assert "immutable" in first["Cache-Control"] and "private" in first["Cache-Control"]
    again = mate("GET", f"/runs/{run.pk}/media/{number}", If_None_Match=first["ETag"])
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert mate("GET", f"/runs/{run.pk}/media/{number}", If_None_Match='"0"').status_code == 200


def test_a_name_that_is_an_attack_is_a_harmless_file_name(cast: Cast, mate: Api) -> None:
    run = make_run(cast)
    log(run, image(1, name='../x"; filename=evil.html\r\nX: y \N{RIGHT-TO-LEFT OVERRIDE}'))
    item = mate("GET", f"/runs/{run.pk}/media").json()["items"][0]
    found = mate("GET", f"/runs/{run.pk}/media/steps?name={quoted(item['name'])}").json()["items"]
    answer = mate("GET", f"/runs/{run.pk}/media/{found[0]['id']}/file")
    assert answer["Content-Disposition"] == 'inline; filename="..-x-filename-evil.html-X-y--1.png"'


def quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def test_a_restart_hides_what_it_logged_again_from_its_first_step_on(cast: Cast, mate: Api) -> None:
    run = make_run(cast)
    log(run, *(text(step) for step in (10, 20, 30, 40)))
    log(run, *(text(step) for step in (30, 50)), fence=2)
    found = steps(mate, run, "name=story")
    assert [(item["step"], item["attempt"]) for item in found] == [(10, 1), (20, 1), (30, 2), (50, 2)]
    everything = steps(mate, run, "name=story&attempts=all")
    assert [(item["step"], item["attempt"]) for item in everything if item["superseded"]] == [(30, 1), (40, 1)]
    assert len(everything) == 6


def test_of_many_steps_an_even_choice_comes(cast: Cast, mate: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_STEPS", 3)
    run = make_run(cast)
    for rank in (0, 1):
        log(run, *(text(step) for step in range(0, 50, 10)), rank=rank)
    answer = mate("GET", f"/runs/{run.pk}/media/steps?name=story").json()
    assert answer["thinned"]
    assert [(item["step"], item["rank"]) for item in answer["items"]] == [
        (0, 0), (0, 1), (20, 0), (20, 1), (40, 0), (40, 1),
    ]  # fmt: skip


def test_histograms_over_steps_come_on_common_edges(cast: Cast, mate: Api) -> None:
    run = make_run(cast)
    log(
        run,
        histogram(1),
        histogram(2, edges=(1.0, 2.0, 3.0, 4.0, 5.0), counts=(1.0, 2.0, 3.0, 4.0)),
        text(3, "weights"),
    )
    answer = mate("GET", f"/runs/{run.pk}/media/histograms?name=weights").json()
    assert answer == {
        "edges": [0.0, 1.25, 2.5, 3.75, 5.0], "steps": [1, 2], "times": [1001.0, 1002.0],
        "counts": [[4.25, 3.75, 0.0, 0.0], [0.25, 1.75, 3.25, 4.75]], "thinned": False,
    }  # fmt: skip


def test_histograms_of_ranks_are_added_and_steps_chosen_evenly(cast: Cast, mate: Api) -> None:
    run = make_run(cast)
    for rank in (0, 1):
        log(run, *(histogram(step) for step in range(9)), rank=rank)
    answer = mate("GET", f"/runs/{run.pk}/media/histograms?name=weights&steps=3").json()
    assert (answer["steps"], answer["thinned"]) == ([0, 4, 8], True)
    assert answer["counts"] == [[6.0, 10.0]] * 3


def test_a_run_without_any_has_empty_lists(cast: Cast, mate: Api) -> None:
    path = f"/runs/{make_run(cast).pk}/media"
    assert mate("GET", path).json() == {"items": [], "next": None}
    assert mate("GET", f"{path}/steps?name=x").json() == {"items": [], "cursor": 0, "thinned": False}
    empty = mate("GET", f"{path}/histograms?name=x").json()
    assert empty == {"edges": [], "steps": [], "times": [], "counts": [], "thinned": False}


@pytest.mark.parametrize("path", ["/{id}", "/{id}/file"])
def test_who_cannot_see_the_run_sees_nothing(as_: Callable[[str], Api], run: Run, path: str) -> None:
    number = steps(as_("mate"), run, 'name=samples&labels={"index":"0"}')[0]["id"]
    asked = f"/runs/{run.pk}/media{path.format(id=number)}"
    assert as_("viewer")("GET", asked).status_code == 200
    assert as_("outsider")("GET", asked).status_code == 404
    assert as_("")("GET", asked).status_code == 401


def test_an_item_is_found_with_its_own_run_only(cast: Cast, mate: Api, run: Run) -> None:
    number = id_of(mate, run, "story")
    assert mate("GET", f"/runs/{make_run(cast).pk}/media/{number}").status_code == 404


@pytest.mark.parametrize("number", ["0", "999999", "99999999999999999999999", "-1", "one", "1.5"])
def test_what_is_not_there_is_not_found(mate: Api, run: Run, number: str) -> None:
    for path in (f"/runs/{run.pk}/media/{number}", f"/runs/{run.pk}/media/{number}/file"):
        answer = mate("GET", path)
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")


def test_what_is_no_image_is_no_file_and_the_answer_says_so(mate: Api, run: Run) -> None:
    answer = mate("GET", f"/runs/{run.pk}/media/{id_of(mate, run, 'story')}/file")
    assert answer.status_code == 404 and "'story' at step 10 is a text" in answer.json()["detail"]


@pytest.mark.parametrize("query", ["", "name=x&labels=[", "name=x&labels=[1]", "name=x&attempts=old"])
def test_a_question_that_makes_no_sense_is_422(mate: Api, run: Run, query: str) -> None:
    assert mate("GET", f"/runs/{run.pk}/media/steps?{query}").status_code == 422


@pytest.mark.parametrize("steps", ["0", "1001", "many"])
def test_a_number_of_steps_that_makes_no_sense_is_422(mate: Api, run: Run, steps: str) -> None:
    assert mate("GET", f"/runs/{run.pk}/media/histograms?name=weights&steps={steps}").status_code == 422
