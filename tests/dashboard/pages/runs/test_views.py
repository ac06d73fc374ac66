from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.models import AuditEntry, Membership, Project, Role, Run, User
from runs.values.status import Status
from tests.cast import Cast, spec
from trainyard.spec import parse_spec

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MakeRun = Callable[..., Run]
FETCH = {"X-Requested-With": "fetch"}


def test_a_stop_is_asked_by_one_button(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run()
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/do/stop/", headers=FETCH)
    assert answer.json()["sentence"] == "Stopping hello-gpt."
    run.refresh_from_db()
    assert run.status == Status.CANCELLED


def test_an_archived_run_comes_back_by_undo(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run, client = make_run(status=Status.FAILED), as_user(cast.mate)
    undo = client.post(f"/runs/{run.pk}/do/archive/", headers=FETCH).json()["undo"]
    run.refresh_from_db()
    assert run.archived_at is not None
    client.post(undo, headers=FETCH)
    run.refresh_from_db()
    assert run.archived_at is None


def test_running_it_again_leads_to_the_new_run(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.SUCCEEDED)
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/do/again/", headers=FETCH)
    clone = run.children.get()
    assert answer.json()["to"] == f"/runs/{clone.pk}/" and answer.json()["sentence"].startswith(
        "Launched hello-gpt again"
    )


@pytest.mark.parametrize("status", [Status.RUNNING, Status.SUCCEEDED, Status.FAILED])
def test_clone_opens_the_form_with_the_spec_and_launches_nothing(
    cast: Cast, as_user: AsUser, make_run: MakeRun, status: Status
) -> None:
    document = parse_spec(spec(name="original", train={"steps": 77, "batch_size": 32})).resolved()
    run = make_run(status=status, spec=document)
    client = as_user(cast.mate)
    form = f"/launch/?from=run:{run.pk}"
    for path in (f"/runs/{run.pk}/", "/runs/"):
        text = client.get(path).content.decode()
        assert f'href="{form}"' in text and "do/clone" not in text, path
    assert client.post(f"/runs/{run.pk}/do/clone/", headers=FETCH).status_code == 404
    filled = client.get(form).content.decode()
    assert 'value="original-2"' in filled and 'value="77"' in filled
    assert Run.objects.count() == 1


def test_a_deleted_run_leads_to_the_table(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run(status=Status.FAILED)
    assert as_user(cast.mate).post(f"/runs/{run.pk}/do/delete/", headers=FETCH).json()["to"] == "/runs/"
    assert not Run.objects.filter(pk=run.pk).exists()


def test_without_our_script_the_page_comes_back_with_a_message(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run, client = make_run(status=Status.FAILED), as_user(cast.mate)
    answer = client.post(f"/runs/{run.pk}/do/archive/", headers={"Referer": f"http://testserver/runs/{run.pk}/"})
    assert answer["Location"] == f"http://testserver/runs/{run.pk}/"
    assert "Archived hello-gpt." in client.get("/runs/").content.decode()


def test_what_the_state_does_not_allow_is_refused_with_its_sentence(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(status=Status.SUCCEEDED)
    answer = as_user(cast.mate).post(f"/runs/{run.pk}/do/restart/", headers=FETCH)
    assert answer.status_code == 409
    assert "succeeded" in answer.json()["sentence"]
    assert as_user(cast.mate).post(f"/runs/{run.pk}/do/restart/").status_code == 409


def test_a_verb_that_does_not_exist_is_not_found(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    assert as_user(cast.mate).post(f"/runs/{make_run().pk}/do/explode/", headers=FETCH).status_code == 404


def test_many_runs_are_archived_and_the_live_one_is_named(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    ended = [make_run(status=Status.FAILED) for _ in range(2)]
    live = make_run(name="alive")
    ids = [run.pk for run in (*ended, live)]
    answer = as_user(cast.mate).post("/runs/do/archive/", {"run": ids}, headers=FETCH)
    assert answer.status_code == 200
    assert "2 runs" in answer.json()["sentence"]
    assert "alive" in answer.json()["sentence"]
    assert Run.objects.exclude(archived_at=None).count() == 2


def test_tags_and_notes_are_saved_as_they_are(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    run = make_run()
    as_user(cast.mate).post(f"/runs/{run.pk}/annotate/", {"tags": "a, <b>, a,,", "notes": "<i>"}, headers=FETCH)
    run.refresh_from_db()
    assert (run.tags, run.notes) == (["a", "<b>"], "<i>")


def test_a_selection_with_runs_that_are_gone_or_others_does_what_it_can(
    cast: Cast, as_user: AsUser, make_run: MakeRun
) -> None:
    run = make_run(status=Status.FAILED)
    answer = as_user(cast.mate).post("/runs/do/archive/", {"run": ["gone", run.pk]}, headers=FETCH)
    assert answer.json()["sentence"].startswith("Archive: done for 1 run. ")
    assert "gone" in answer.json()["sentence"]
    refused = as_user(cast.viewer).post("/runs/do/archive/", {"run": [run.pk]}, headers=FETCH)
    assert refused.status_code == 403 and "You need to be" in refused.json()["sentence"]


def test_many_runs_get_tags_beside_those_that_they_have(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    runs = [make_run(tags=["a"]), make_run(tags=[])]
    client, ids = as_user(cast.mate), [run.pk for run in runs]
    answer = client.post("/runs/do/tag/", {"run": ids, "tags": "b, <i>,a"}, headers=FETCH)
    assert answer.json()["sentence"] == "Tag: done for 2 runs."
    assert [Run.objects.get(pk=pk).tags for pk in ids] == [["a", "b", "<i>"], ["b", "<i>", "a"]]
    refused = client.post("/runs/do/tag/", {"run": ids, "tags": " , "}, headers=FETCH)
    assert (refused.status_code, refused.json()["sentence"]) == (409, "Write a tag first.")
    assert as_user(cast.viewer).post("/runs/do/tag/", {"run": ids, "tags": "c"}, headers=FETCH).status_code == 403


def test_many_runs_are_moved_to_a_project_that_one_chooses(cast: Cast, as_user: AsUser, make_run: MakeRun) -> None:
    runs = [make_run(status=Status.FAILED) for _ in range(2)]
    client, ids = as_user(cast.mate), [run.pk for run in runs]
    assert b"Project to move to" not in client.get("/runs/").content
    vision = Project.objects.create(name="vision")
    Membership.objects.create(project=vision, user=cast.mate, role=Role.MEMBER)
    cast.cluster.projects.add(vision)
    assert b"Project to move to" in client.get("/runs/").content
    for name, status in (("", 409), ("nowhere", 404)):
        assert client.post("/runs/do/move/", {"run": ids, "project": name}, headers=FETCH).status_code == status
    answer = client.post("/runs/do/move/", {"run": [*ids, "gone"], "project": "vision"}, headers=FETCH)
    assert answer.json()["sentence"].startswith("Move: done for 2 runs. ")
    assert vision.runs.count() == 2
    assert {"default", "vision"} <= set(AuditEntry.objects.values_list("project", flat=True))
