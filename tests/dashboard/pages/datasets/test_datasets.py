"""Data: the list, the page of one with what a node found, and the form that names one."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from dashboard.pages.launch.sources import find
from dashboard.pages.launch.spec_form import typed_of
from runs import actions
from runs.models import Dataset, Run, User
from tests.cast import Cast, make_node, spec
from tests.datasets import PICTURE, asked, make_dataset, ready

AsUser = Callable[[User], Client]
State = Dataset.State
pytestmark = pytest.mark.usefixtures("valkey")


def text_of(answer: Any) -> str:
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_list_says_of_each_what_it_is_and_how_it_stands(as_user: AsUser, cast: Cast) -> None:
    ready(cast)
    make_dataset(cast, "broken", state=State.FAILED, problem="There is no file /data/trees.csv.")
    actions.submit_run(actor=cast.mate, document=spec(task={"recipe": "tabular", "data": {"dataset": "trees"}}))
    text = text_of(as_user(cast.mate).get("/data/"))
    for words in ("trees", "CSV table", "2.0 KiB", "1 run", "ready", "failed", "There is no file /data/trees.csv."):
        assert words in text


def test_an_empty_list_teaches(as_user: AsUser, cast: Cast) -> None:
    text = text_of(as_user(cast.mate).get("/data/"))
    assert "Name a file, a folder or a URL once" in text and "trainyard dataset add" in text
    assert text.count('href="/data/new/"') == 1
    assert "/data/new/" not in text_of(as_user(cast.viewer).get("/data/"))
    assert "No dataset has this in its name" in text_of(as_user(cast.mate).get("/data/?q=zzz"))


def test_the_page_of_a_table_has_columns_classes_and_rows_and_escapes_them(as_user: AsUser, cast: Cast) -> None:
    text = text_of(as_user(cast.mate).get(f"/data/{ready(cast).pk}/"))
    assert "&lt;b&gt;kind&lt;/b&gt;" in text and "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text and "<b>kind" not in text
    assert '<progress max="3" value="3" aria-label="Rows of class oak">' in text
    assert "First rows" in text and '<span class="tag">target</span>' in text


def test_the_page_of_text_shows_how_it_begins(as_user: AsUser, cast: Cast) -> None:
    facts = {"kind": "text", "text": "Once <b>upon</b> a time"}
    made = ready(cast, facts=facts, source="text", options={})
    assert "Once &lt;b&gt;upon&lt;/b&gt; a time" in text_of(as_user(cast.mate).get(f"/data/{made.pk}/"))


def test_the_page_of_images_shows_some_of_each_class(as_user: AsUser, cast: Cast) -> None:
    png = base64.b64encode(PICTURE).decode()
    facts = {"kind": "images", "images": [{"label": 'an "oak"', "png": png}]}
    made = ready(cast, facts=facts, source="images", options={})
    text = text_of(as_user(cast.mate).get(f"/data/{made.pk}/"))
    assert f'src="data:image/png;base64,{png.replace("=", "&#x3D;")}"' in text or f"base64,{png}" in text
    assert 'alt="an &quot;oak&quot;, example 1"' in text


def test_a_failed_one_says_what_and_what_to_do(as_user: AsUser, cast: Cast) -> None:
    node = make_node(cast.cluster, "node-a")
    made = make_dataset(cast, state=State.FAILED, problem="There is no file.", checked_by=node)
    text = text_of(as_user(cast.mate).get(f"/data/{made.pk}/"))
    assert "There is no file." in text and "node-a found" in text and "Check again" in text
    assert "Launch with it" not in text


def test_one_that_is_looked_at_says_by_whom(as_user: AsUser, cast: Cast) -> None:
    made = asked(make_dataset(cast), make_node(cast.cluster, "node-a"))
    client = as_user(cast.mate)
    assert "node-a has been checking it" in text_of(client.get(f"/data/{made.pk}/?fragment=dataset"))
    assert "waits for a node of cluster local" in text_of(client.get(f"/data/{make_dataset(cast, 'other').pk}/"))


def test_who_used_it_is_listed(as_user: AsUser, cast: Cast) -> None:
    made = ready(cast)
    document = spec(task={"recipe": "tabular", "data": {"dataset": "trees"}})
    run = actions.submit_run(actor=cast.mate, document=document)
    job = actions.save_job(actor=cast.mate, document={**document, "name": "nightly"})
    text = text_of(as_user(cast.mate).get(f"/data/{made.pk}/"))
    assert f"/runs/{run.pk}/" in text and f"/jobs/{job.pk}/" in text


def test_it_is_checked_again_and_deleted(as_user: AsUser, cast: Cast) -> None:
    made = ready(cast)
    client = as_user(cast.mate)
    assert client.post(f"/data/{made.pk}/check/")["Location"] == f"/data/{made.pk}/"
    made.refresh_from_db()
    assert made.state == State.WAITING
    assert client.post(f"/data/{made.pk}/delete/")["Location"] == "/data/"
    assert not Dataset.objects.exists()


def test_one_that_a_live_run_uses_is_not_deleted(as_user: AsUser, cast: Cast) -> None:
    made = ready(cast)
    actions.submit_run(actor=cast.mate, document=spec(task={"recipe": "tabular", "data": {"dataset": "trees"}}))
    answer = as_user(cast.mate).post(f"/data/{made.pk}/delete/")
    assert answer.status_code == 409 and b"is QUEUED and uses dataset trees" in answer.content


def test_a_viewer_is_offered_nothing_that_would_be_refused(as_user: AsUser, cast: Cast) -> None:
    text = text_of(as_user(cast.viewer).get(f"/data/{ready(cast).pk}/"))
    assert "Launch with it" not in text and "Check again" not in text


def test_an_outsider_finds_nothing(as_user: AsUser, cast: Cast) -> None:
    made = ready(cast)
    client = as_user(cast.outsider)
    assert b"trees" not in client.get("/data/").content.replace(b"dataset add trees", b"")
    assert client.get(f"/launch/?from=dataset:{made.pk}").status_code == 404


FORM = {"name": "trees", "project": "default", "cluster": "local", "source": "csv", "location": "/data/trees.csv"}


def test_the_form_names_data(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    assert "An absolute path" in text_of(client.get("/data/new/"))
    answer = client.post("/data/new/", {**FORM, "target": "kind", "text_field": "left over", "image_size": ""})
    made = Dataset.objects.get()
    assert answer["Location"] == f"/data/{made.pk}/"
    assert (made.name, made.source, made.options, made.created_by) == ("trees", "csv", {"target": "kind"}, cast.mate)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"location": "trees.csv"}, "must be an absolute path"),
        ({"name": "my trees"}, "slug"),
        ({"source": "xlsx"}, "must be one of text"),
        ({"source": "images", "image_size": "1"}, "at least 4"),
        ({"source": "images", "image_size": "huge"}, "whole number"),
        ({"source": "images", "image_size": "9" * 5000}, "whole number"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(
    as_user: AsUser, cast: Cast, changes: dict[str, str], words: str
) -> None:
    answer = as_user(cast.mate).post("/data/new/", {**FORM, **changes})
    assert answer.status_code == 422 and words in answer.content.decode()
    assert 'aria-invalid="true"' in answer.content.decode() and not Dataset.objects.exists()


def test_a_name_that_is_taken_is_said_beside_it(as_user: AsUser, cast: Cast) -> None:
    make_dataset(cast)
    answer = as_user(cast.mate).post("/data/new/", FORM)
    assert answer.status_code == 422 and b"already a dataset named trees" in answer.content


def test_the_launch_form_begins_with_it_and_launches(as_user: AsUser, cast: Cast) -> None:
    made = ready(cast)
    make_node(cast.cluster)
    client, key = as_user(cast.mate), f"dataset:{made.pk}"
    text = text_of(client.get(f"/launch/?from={key}"))
    assert '<option value="trees" data-tasks="tabular" selected>trees (csv, ready)</option>' in text
    typed = typed_of(find(cast.mate, key).document)
    answer = client.post("/launch/", {**typed, "from": key})
    assert answer.status_code == 302, answer.content.decode()
    data = Run.objects.get().spec["task"]["data"]
    assert (data["dataset"], data["target"], data["location"]) == ("trees", "height", "/data/trees.csv")
    again = client.get(f"/launch/?from=run:{Run.objects.get().pk}")
    assert "/data/trees.csv" not in text_of(again), "the dataset says that anew"


def test_the_launch_form_offers_nobody_what_they_do_not_see(as_user: AsUser, cast: Cast) -> None:
    ready(cast)
    assert "trees (csv" in text_of(as_user(cast.viewer).get("/launch/"))
    assert "trees (csv" not in text_of(as_user(cast.outsider).get("/launch/"))
