from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pyarrow.parquet as pq
import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.pages.runs import address, files
from dashboard.pages.shared.run_colours import colour_of
from runs.models import Project, Run, Sweep, TrialRun, User, Workspace
from runs.presenting.runs import run_document
from runs.values.status import Status
from tests.cast import Cast, make_sweep, spec
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]


def text_of(client: Client, url: str = "/runs/") -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_run_is_listed_with_its_status_progress_and_loss(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(name="hello", status=Status.RUNNING, tags=["baseline"])
    write_series(run, "train/loss", [5.0, 4.0, 3.123])
    text = text_of(as_user(cast.viewer))
    for words in ("hello", "running", "baseline", "3.12", '<path d="M0.0,', "/ 300"):
        assert words in text


def test_without_runs_the_page_teaches_how_to_make_one(cast: Cast, as_user: AsUser) -> None:
    assert "trainyard submit" in text_of(as_user(cast.viewer))


def test_an_outsider_sees_none_of_them(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="secret-project")
    assert "secret-project" not in text_of(as_user(cast.outsider))


def test_markup_in_names_and_tags_is_text(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="<b>bold</b>", tags=["<script>alert(1)</script>"], reason_sentence='"><img src=x>')
    text = text_of(as_user(cast.viewer))
    assert "<script>alert" not in text
    assert "<b>bold</b>" not in text
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("view=live", {"alive"}),
        ("view=failed", {"broken"}),
        ("view=ended", {"broken"}),
        ("view=archived", {"old"}),
        ("q=bro", {"broken"}),
        ("q=blue", {"alive"}),
        ("tag=blue", {"alive"}),
        ("q=größe", {"alive"}),
        ("tag=größe", {"alive"}),
        ("tag=blu", set()),
        ("project=default", {"alive", "broken"}),
        ("project=other", set()),
        ("filter=status+=+failed+bro", {"broken"}),
        ("filter=größe+or+status=FAILED&tag=blue", {"alive"}),
        ("", {"alive", "broken"}),
    ],
)
def test_the_url_chooses_what_is_shown(
    query: str, shown: set[str], cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    make_run(name="alive", status=Status.RUNNING, tags=["blue", "größe"])
    make_run(name="broken", status=Status.FAILED)
    make_run(name="old", status=Status.FAILED, archived_at=timezone.now())
    text = text_of(as_user(cast.viewer), f"/runs/?{query}")
    assert {name for name in ("alive", "broken", "old") if f">{name}</a>" in text} == shown
    assert f"data-number>{len(shown)} run" in text or not shown


def test_runs_are_sorted_as_the_url_says(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    for name in ("bravo", "alpha", "charlie"):
        make_run(name=name)
    text = text_of(as_user(cast.viewer), "/runs/?sort=name")
    assert text.index(">alpha<") < text.index(">bravo<") < text.index(">charlie<")
    assert 'aria-sort="ascending"' in text


def names_in(client: Client, query: str) -> list[str]:
    answer = client.get(f"/runs/?fragment=rows&{query}", headers={"X-Requested-With": "fetch"})
    assert answer.status_code == 200 and b"<html" not in answer.content
    return re.findall(r"data-open>([^<]+)</a>", answer.content.decode())


@pytest.mark.parametrize("sort", ["", "sort=name", "sort=summary.train/loss.last,-name", "sort=-created_at"])
def test_windows_follow_each_other_without_a_run_twice_or_missing(
    sort: str, cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    at = timezone.now()
    for number in range(5):
        run = make_run(name=f"run-{number}")
        Run.objects.filter(pk=run.pk).update(created_at=at - timedelta(minutes=number // 2))  # some at one instant
    client = as_user(cast.viewer)
    seen = [name for offset in (0, 2, 4) for name in names_in(client, f"limit=2&offset={offset}&{sort}")]
    assert sorted(seen) == [f"run-{number}" for number in range(5)]
    assert names_in(client, f"offset=5&{sort}") == []


def test_what_is_new_is_counted_and_moves_nothing_until_it_is_asked_for(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    for name in ("bravo", "charlie"):
        make_run(name=name)
    client = as_user(cast.viewer)
    until = urlencode({"until": client.get("/runs/").context["until"]})
    make_run(name="alpha")
    answer = client.get(f"/runs/?fragment=rows&sort=name&count=1&{until}")
    assert (answer["X-Rows"], answer["X-New"]) == ("2", "1")
    assert names_in(client, f"sort=name&{until}") == ["bravo", "charlie"]
    assert names_in(client, "sort=name") == ["alpha", "bravo", "charlie"]


def test_rows_that_are_there_are_read_again_by_their_ids_and_no_others(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    mine, secret = make_run(name="mine"), make_run(name="secret", project=Project.objects.create(name="other"))
    make_run(name="third")
    assert names_in(as_user(cast.viewer), f"ids={mine.pk}.{secret.pk}.gone") == ["mine"]


def test_columns_are_any_fields_in_the_order_and_width_of_the_address(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(name="hello", spec=spec(train={"steps": 3, "learning_rate": 0.25}))
    write_series(run, "my, loss", [3.0, 1.5])
    make_run(name="other", spec={"name": "other", "train": {"learning_rate": "<i>soon</i>"}})
    query = urlencode({"columns": 'train.learning_rate@90,status!,"summary.my, loss.min",config.gone,nonsense.x'})
    answer = as_user(cast.viewer).get(f"/runs/?{query}")
    text = answer.content.decode()
    assert [head.column.name for head in answer.context["heads"]] == [
        "name", "status", "train.learning_rate", "summary.my, loss.min", "config.gone"
    ]  # fmt: skip
    assert 'width="90"' in text and ">0.250</span>" in text and ">1.50</td>" in text
    assert "<i>soon" not in text and "&lt;i&gt;soon" in text
    assert "nonsense.x is no field: its column is left out." in text
    many = ",".join(f"config.a{number}" for number in range(900))
    text = text_of(as_user(cast.viewer), f"/runs/?columns={many}")
    assert "The first 60 of " in text and text.count("<th ") == 63


@pytest.mark.parametrize("query", ["view=nonsense", "fragment=rows&sort=spec", "fragment=rows&filter=name+="])
def test_a_filter_that_means_nothing_is_refused(query: str, cast: Cast, as_user: AsUser) -> None:
    assert as_user(cast.viewer).get(f"/runs/?{query}").status_code == 400


@pytest.mark.parametrize("query", ["sort=spec", "sort=-tag", "sort=nonsense", "sort=,", "fragment=rows&offset=-1"])
def test_an_order_that_means_nothing_is_said_and_the_newest_come_first(
    query: str, cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    make_run(name="hello")
    text = text_of(as_user(cast.viewer), f"/runs/?{query}")
    assert ">hello</a>" in text
    assert ("The newest come first." in text) == (query.startswith("sort=") and query != "sort=,")


def test_a_filter_that_cannot_be_read_stays_in_its_field_with_the_character_marked(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    make_run(name="hello")
    text = text_of(as_user(cast.viewer), "/runs/?filter=name+=+%26+and+)+x")
    assert 'value="name = &amp; and ) x"' in text and 'aria-invalid="true"' in text
    assert "<code>name = &amp; and <mark>)</mark> x</code>" in text and "a field or a word is expected" in text
    assert ">hello</a>" not in text and "No run fits" not in text
    ends = text_of(as_user(cast.viewer), f"/runs/?filter={'long+' * 20}name+=")
    assert "name =<mark>&nbsp;</mark></code>" in ends and "<code>…" in ends


def test_many_runs_cost_no_more_queries_than_few(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    def num_queries() -> int:
        client = as_user(cast.viewer)
        with CaptureQueriesContext(connections["default"]) as queries:
            text_of(client)
        return len(queries)

    make_run()
    few = num_queries()
    for _ in range(8):
        make_run()
    assert num_queries() == few


def test_runs_that_were_read_to_their_end_are_not_counted_again(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    """A count reads all rows once more, which costs a search that finds little most of its time."""
    for number in range(3):
        make_run(name=f"muon-{number}")
    client = as_user(cast.viewer)
    with CaptureQueriesContext(connections["default"]) as queries:
        assert "3 runs" in text_of(client, "/runs/?filter=muon")
    assert not [query["sql"] for query in queries if "COUNT(*)" in query["sql"] and '"runs_run"' in query["sql"]]


def test_a_viewer_is_offered_nothing_that_would_be_refused(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="hello", status=Status.SUCCEEDED)
    offered = ("Clone hello", "Delete hello", ">Launch</a>")
    mates, viewers = text_of(as_user(cast.mate)), text_of(as_user(cast.viewer))
    assert all(words in mates for words in offered)
    assert not any(words in viewers for words in offered)


def test_every_run_has_its_colour_and_one_checkbox_for_whoever_sees_it(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run, other = make_run(name="hello"), make_run(name="other")
    Workspace.objects.create(user=cast.viewer, project=cast.project, state={"colours": {run.pk: 6}})
    text = text_of(as_user(cast.viewer))
    box = text[text.index(f'value="{run.pk}"') :].partition(">")[0]
    assert 'aria-label="Select hello"' in box and "disabled" not in box
    assert "data-eye" not in text, "what is selected is selected once"
    assert "Archive</button>" not in text and "Archive</button>" in text_of(as_user(cast.mate))
    rows = re.findall(r'series-(\d+)" data-key="(\w+)"', text)
    assert {key: int(colour) for colour, key in rows} == {run.pk: 7, other.pk: colour_of(other.pk) + 1}


def charted(text: str) -> list[dict[str, Any]]:
    document = text.partition('id="chart-runs" type="application/json">')[2].partition("<")[0]
    found: list[dict[str, Any]] = json.loads(document)
    return found


def test_charts_stand_beside_the_table_once_they_are_asked_for(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    for name in ("hello", "other", "hidden"):
        make_run(name=name)
    client = as_user(cast.viewer)
    closed = text_of(client, "/runs/?filter=name+!%3D+hidden&sort=name")
    assert 'data-module="charts"' not in closed and "charts/charts" not in closed and "charts.css" not in closed
    assert 'href="?filter=name+!%3D+hidden&amp;sort=name&amp;charts=1"' in closed
    text = text_of(client, "/runs/?filter=name+!%3D+hidden&sort=name&charts=1")
    assert [one["name"] for one in charted(text)] == ["hello", "other"] and ">of 2 runs</span>" in text
    rows = {key: int(colour) for colour, key in re.findall(r'series-(\d+)" data-key="(\w+)"', text)}
    assert {one["id"]: one["colour"] + 1 for one in charted(text)} == rows
    assert '<input type="hidden" name="charts" value="1">' in text  # a search keeps them
    newer = client.get("/runs/?filter=name+!%3D+hidden&sort=-name&charts=1&fragment=charts").json()
    assert [one["name"] for one in newer["runs"]] == ["other", "hello"] and newer["words"] == "of 2 runs"
    assert client.get("/runs/?filter=name+%3D&fragment=charts").status_code == 400


def test_the_charts_are_of_the_first_50_in_the_order_of_the_table(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    for number in range(52):
        make_run(name=f"run-{number:02d}")
    text = text_of(as_user(cast.viewer), "/runs/?sort=name&charts=1")
    assert [one["name"] for one in charted(text)] == [f"run-{number:02d}" for number in range(50)]
    assert ">of the first 50 runs</span>" in text


def saved(client: Client, query: str = "") -> list[dict[str, str]]:
    answer = client.get(f"/runs/csv/{query}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))


def test_the_table_is_saved_as_csv_in_its_order_with_specs_and_losses(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    first = make_run(name="alpha", spec=spec(train={"steps": 3, "learning_rate": 0.1}), tags=["x", "y"])
    make_run(name="bravo")
    make_run(name="secret", project=Project.objects.create(name="other"))
    write_series(first, "train/loss", [3.0, -1.5])
    rows = saved(as_user(cast.viewer), "?sort=-name")
    assert [row["name"] for row in rows] == ["bravo", "alpha"]
    assert (rows[1]["id"], rows[1]["tags"], rows[1]["status"]) == (first.pk, "x y", "QUEUED")
    assert (rows[1]["train/loss last"], rows[1]["train/loss max"], rows[0]["train/loss last"]) == ("-1.5", "3.0", "")
    assert (rows[1]["train.learning_rate"], rows[0]["train.learning_rate"]) == ("0.1", "")
    assert [row["name"] for row in saved(as_user(cast.viewer), "?q=alp")] == ["alpha"]
    rows = saved(as_user(cast.viewer), "?sort=train.learning_rate&filter=not+nothing")
    assert [row["name"] for row in rows] == ["alpha", "bravo"]


def test_the_columns_that_are_shown_are_those_of_the_file(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(name="alpha", config={"lr": 0.1, "opt": "=adam"})
    make_run(name="bravo", config={"lr": "auto"})
    query = "?sort=name&columns=status,config.lr,config.opt,created,spark:train/loss,gone.field,ranks"
    rows = saved(as_user(cast.viewer), query)
    assert list(rows[0]) == ["id", "name", "status", "config.lr", "config.opt", "created"]
    assert list(rows[0].values()) == [run.pk, "alpha", "QUEUED", "0.1", "'=adam", run.created_at.isoformat()]
    answer = as_user(cast.viewer).get(f"/runs/parquet/{query}")
    assert answer["Content-Disposition"] == 'attachment; filename="runs.parquet"'
    table = pq.read_table(io.BytesIO(answer.content))
    assert table.column_names == list(rows[0])
    assert table.column("config.lr").to_pylist() == ["0.1", "auto"], "texts and numbers in one column are texts"
    assert table.column("config.opt").to_pylist() == ["=adam", None]
    assert abs(table.column("created").to_pylist()[0] - run.created_at) < timedelta(milliseconds=2)


def test_parquet_without_pyarrow_is_a_sentence(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = as_user(cast.viewer).get("/runs/parquet/")
    assert answer.status_code == 501 and "needs pyarrow" in answer.content.decode()


def test_a_spreadsheet_runs_nothing_of_what_people_named(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    make_run(name="=cmd", spec=spec(notes='@SUM(1, "2")', shift="-3"))
    (row,) = saved(as_user(cast.viewer))
    assert (row["name"], row["notes"], row["shift"]) == ("'=cmd", '\'@SUM(1, "2")', "-3")


def test_a_file_has_each_column_once_and_no_more_than_it_has_room_for(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FIELDS", 4)
    make_run(name="alpha", tags=["x"], spec={"name": "alpha", "tags": ["x", "y"], "a": 1, "step": 7, "b": 2, "c": 3})
    header = as_user(cast.viewer).get("/runs/csv/").content.decode().partition("\n")[0].split(",")
    assert len(set(header)) == len(header)
    assert header[-4:] == ["spec tags", "a", "spec step", "b"]
    (row,) = saved(as_user(cast.viewer))
    assert (row["tags"], row["spec tags"], row["spec step"], row["b"]) == ("x", "x, y", "7", "2")


def test_a_file_that_is_not_everything_says_so_in_its_name(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_RUNS", 2)
    for _ in range(3):
        make_run()
    client = as_user(cast.viewer)
    assert "runs-first-2.csv" in client.get("/runs/csv/")["Content-Disposition"]
    assert len(saved(client)) == 2


def test_a_file_of_a_filter_that_means_nothing_is_refused(cast: Cast, as_user: AsUser) -> None:
    assert as_user(cast.viewer).get("/runs/csv/?sort=spec").status_code == 400


def test_trials_of_sweeps_are_left_out_until_they_are_asked_for_and_counted(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    sweep, client = make_sweep(cast), as_user(cast.viewer)
    pruned = make_run(name="search-a", status=Status.CANCELLED, reason_code="pruned", tags=["sweep:search"])
    other = make_run(name="search-b", status=Status.RUNNING, tags=["sweep:search"])
    sweep.trials.update(run=pruned)
    TrialRun.objects.create(trial=sweep.trials.get(), seed=1, run=other)
    assert "All runs here are trials of sweeps." in text_of(client, "/runs/?view=live")
    make_run(name="lonely")
    text = text_of(client)
    assert "lonely" in text and "search-a" not in text and "search-b" not in text
    assert "2 trials of 1 sweep are folded." in text and 'href="?trials=1"' in text
    assert "1 trial of 1 sweep is folded." in text_of(client, "/runs/?view=live")
    assert "folded." not in text_of(client, "/runs/?q=lonely")
    text = text_of(client, "/runs/?trials=1")
    assert "search-a" in text and "search-b" in text and "folded." not in text
    assert '<input type="hidden" name="trials" value="1">' in text  # a search keeps them
    assert "search-a" in text_of(client, "/runs/?tag=sweep%3Asearch")  # as the sweep's page links to its runs
    assert "search-a" in text_of(client, f"/runs/?q={pruned.pk}")
    assert {row["name"] for row in saved(client)} == {"lonely"}


def test_a_pruned_trial_is_called_pruned_and_not_cancelled(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(name="search-a", status=Status.CANCELLED, reason_code="pruned")
    client = as_user(cast.viewer)
    for url in ("/runs/", f"/runs/{run.pk}/", f"/runs/compare/?run={run.pk}"):
        text = text_of(client, url)
        assert "</svg>pruned</span>" in text and "</svg>cancelled</span>" not in text, url
        assert "was cancelled" not in text
    assert run_document(run, None, None, timezone.now())["is_pruned"]
    [stopped] = client.get("/jump/?runs=1&q=search-a").json()["items"]
    assert stopped["kind"] == f"pruned · {run.pk}"


def test_the_palette_names_a_sweep_once_and_none_of_its_trials_except_by_id(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    sweep, run = make_sweep(cast), make_run(name="search-a")
    sweep.trials.update(run=run)
    client = as_user(cast.viewer)

    def found(words: str) -> list[str]:
        return [item["label"] for item in client.get(f"/jump/?q={words}").json()["items"]]

    assert found("search") == ["search"]
    assert found(run.pk) == ["search-a"]
    assert found("search&runs=1") == ["search-a"], "which Compare adds"


def test_a_sweep_is_one_row_in_the_place_of_its_best_trial_and_its_runs_are_beneath_where_it_is_opened(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    sweep, client = make_sweep(cast), as_user(cast.viewer)
    trials = [make_run(name=f"find-{number}", status=Status.SUCCEEDED) for number in range(3)]
    sweep.trials.all().delete()
    made = [sweep.trials.create(number=at, run=run, state="COMPLETE", value=at / 4) for at, run in enumerate(trials)]
    for name in ("a", "z"):
        make_run(name=name)
    shut = rows_of(client, "sort=name")
    assert [name for _, name in shut] == ["a", sweep.name, "z"]  # before there is a best trial the first stands for it
    Sweep.objects.update(best=made[1])
    make_run(name="find-0-then")
    text = text_of(client, "/runs/?sort=name")
    assert [name for _, name in rows_of(client, "sort=name")] == ["a", "find-0-then", sweep.name, "z"]
    assert "3 trials, best 0.250" in text and f'href="/sweeps/{sweep.pk}/"' in text
    assert f'aria-expanded="false" data-toggled="{sweep.pk}"' in text
    opened = rows_of(client, f"sort=name&open={sweep.pk}")
    assert [name for _, name in opened] == ["a", "find-0-then", sweep.name, "find-0", "find-1", "find-2", "z"]
    assert [place for place, _ in opened] == list(range(7))
    for first in range(7):
        part = rows_of(client, f"sort=name&open={sweep.pk}&fragment=rows&offset={first}&limit=2")
        assert part == opened[first : first + 2]
    kept = text_of(client, f"/runs/?open={sweep.pk}&fragment=rows&count=1&ids=sweep-{sweep.pk}.{trials[2].pk}.nothing")
    assert kept.count("<tr") == 2 and 'aria-level="1" aria-expanded="true" data-toggled=""' in kept
    assert 'aria-level="2"' in kept and client.get("/runs/?open=nothing,%00&sort=name").status_code == 200


def rows_of(client: Client, query: str) -> list[tuple[int, str]]:
    """The place and the name of each row."""
    rows = text_of(client, f"/runs/?{query}").split('<tr role="row" class="grid-row')[1:]
    return [
        (int(re.findall(r'data-place="(\d+)"', row)[0]), re.findall(r"data-open>([^<]+)</a>", row)[0]) for row in rows
    ]


def test_the_page_counts_so_far_and_its_script_asks_for_the_exact_number(
    cast: Cast, as_user: AsUser, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "AT_FIRST", 2)
    for number in range(5):
        make_run(name=f"run-{number}")
    client = as_user(cast.viewer)
    text = client.get("/runs/").content.decode()
    assert 'aria-rowcount="-1"' in text
    assert re.search(r"data-number>More than 2\s+runs", text)
    answer = client.get("/runs/?fragment=rows&offset=0&count=1")
    assert (answer["X-Rows"], answer["X-More"]) == ("5", "")
    grouped = client.get("/runs/?group=status").content.decode()
    assert "More than" not in grouped
