"""Pages of reports: written, read, commented, and never overwritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs import actions
from runs.models import Membership, Project, Report, ReportComment, ReportVersion, Role, User
from tests.cast import Cast, make_run
from tests.series import write_series

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def made(cast: Cast, title: str = "Warm-up", body: str = "What we saw") -> Report:
    return actions.create_report(actor=cast.mate, project=cast.project, title=title, body=body)


def test_a_report_is_written_and_read(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    assert "New report" in client.get("/reports/").content.decode()
    answer = client.post("/reports/new/", {"project": "default", "title": "<b>Warm", "body": "# What\r\nwe saw"})
    report = Report.objects.get()
    assert answer["Location"] == f"/reports/{report.pk}/"
    text = as_user(cast.viewer).get(answer["Location"]).content.decode()
    assert "&lt;b&gt;Warm</h1>" in text and "<h2>What</h2>" in text and "live" in text and "/edit/" not in text
    assert "&lt;b&gt;Warm" in as_user(cast.viewer).get("/reports/").content.decode()
    assert as_user(cast.outsider).get(answer["Location"]).status_code == 404


def test_a_new_report_about_runs_begins_with_their_chart_and_what_differs(as_user: AsUser, cast: Cast) -> None:
    one, other = make_run(cast), make_run(cast)
    text = as_user(cast.mate).get(f"/reports/new/?run={one.pk}&run={other.pk}&run=nothing").content.decode()
    assert f"metrics: train/loss, val/loss\nruns: {one.pk}, {other.pk}\n" in text
    compare = as_user(cast.mate).get(f"/runs/compare/?run={one.pk}&run={other.pk}").content.decode()
    assert f"/reports/new/?run={one.pk}&amp;run={other.pk}" in compare
    assert "/reports/new/" not in as_user(cast.viewer).get(f"/runs/compare/?run={one.pk}").content.decode()


def test_a_save_behind_another_one_shows_both_texts_and_overwrites_nothing(as_user: AsUser, cast: Cast) -> None:
    report = made(cast)
    actions.change_report(actor=cast.owner, report=report, title="Theirs", body="<their text>", version=1)
    form = {"title": "Mine", "body": "my text", "version": "1"}
    client, url = as_user(cast.mate), f"/reports/{report.pk}/edit/"
    answer = client.post(url, form)
    text = answer.content.decode()
    assert answer.status_code == 409 and "my text</textarea>" in text and "&lt;their text&gt;</textarea>" in text
    assert 'name="version" value="2"' in text and ReportVersion.objects.count() == 2
    assert client.post(url, {**form, "version": "2"}).status_code == 302
    assert list(ReportVersion.objects.order_by("number").values_list("body", flat=True))[1:] == [
        "<their text>",
        "my text",
    ]


@pytest.mark.parametrize("version", ["", "x", "-1", "9" * 30, "²"])
def test_a_version_that_is_none_overwrites_nothing(version: str, as_user: AsUser, cast: Cast) -> None:
    report = made(cast)
    answer = as_user(cast.mate).post(
        f"/reports/{report.pk}/edit/", {"title": "Mine", "body": "my text", "version": version}
    )
    assert answer.status_code == 409 and "my text" in answer.content.decode() and ReportVersion.objects.count() == 1
    assert as_user(cast.mate).get(f"/reports/{report.pk}/?version={version}").status_code in (200, 404)


def test_a_form_that_is_refused_keeps_what_was_typed(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.mate).post("/reports/new/", {"project": "default", "title": " ", "body": "my text"})
    text = answer.content.decode()
    assert answer.status_code == 422 and "This field cannot be blank." in text and "my text" in text


def test_old_versions_are_read(as_user: AsUser, cast: Cast) -> None:
    report = made(cast)
    actions.change_report(actor=cast.owner, report=report, title="Newer", body="More", version=1)
    text = as_user(cast.viewer).get(f"/reports/{report.pk}/?version=1").content.decode()
    assert "What we saw" in text and "v2 is newer" in text and "More" not in text
    assert as_user(cast.viewer).get(f"/reports/{report.pk}/?version=3").status_code == 404


def test_numbers_are_kept_as_they_are_when_asked(as_user: AsUser, cast: Cast) -> None:
    run = make_run(cast)
    write_series(run, "loss", (2.0,))
    body = f"{{{{ run/{run.pk} loss last }}}}"
    form = {"project": "default", "title": "Kept", "body": body, "pinned": "1"}
    client = as_user(cast.mate)
    url = client.post("/reports/new/", form)["Location"]
    write_series(run, "loss", (1.0,), first=2)
    text = client.get(url).content.decode()
    assert ">2</a>" in text and "numbers as of" in text
    assert "checked" in client.get(f"{url}edit/").content.decode()
    client.post(f"{url}edit/", {"title": "Live", "body": body, "version": "1"})
    assert ">1</a>" in client.get(url).content.decode()
    assert ">2</a>" in client.get(f"{url}?version=1").content.decode()


def test_too_many_pinned_numbers_are_refused_with_the_text(
    as_user: AsUser, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.actions.reports.MAX_PINNED_BYTES", 10)
    form = {"project": "default", "title": "Kept", "body": "{{ run/a b last }}", "pinned": "1"}
    answer = as_user(cast.mate).post("/reports/new/", form)
    assert answer.status_code == 422 and "at most 10 are kept" in answer.content.decode()


def test_the_preview_shows_what_is_typed(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.mate).post("/reports/preview/", {"project": "default", "body": "*soon*"})
    assert answer.content.decode().strip() == "<p><em>soon</em></p>" and not Report.objects.exists()


def test_comments_stand_below_with_their_version(as_user: AsUser, cast: Cast) -> None:
    report = made(cast)
    client = as_user(cast.mate)
    assert client.post(f"/reports/{report.pk}/do/comment/", {"text": " <i>Why? "})["Location"].endswith("#comments")
    text = as_user(cast.viewer).get(f"/reports/{report.pk}/").content.decode()
    assert "&lt;i&gt;Why?" in text and "on v1" in text and "do/comment" not in text
    assert client.post(f"/reports/{report.pk}/do/comment/", {"text": " "}).status_code == 422
    assert as_user(cast.viewer).post(f"/reports/{report.pk}/do/comment/", {"text": "x"}).status_code == 403
    assert ReportComment.objects.count() == 1


def test_an_archived_report_leaves_the_list_and_comes_back(as_user: AsUser, cast: Cast) -> None:
    report = made(cast)
    client = as_user(cast.mate)
    client.post(f"/reports/{report.pk}/do/archive/")
    viewer = as_user(cast.viewer)  # who gets no message about it
    assert "Warm-up" not in viewer.get("/reports/").content.decode()
    assert "Warm-up" in viewer.get("/reports/?archived=1").content.decode()
    client.post(f"/reports/{report.pk}/do/unarchive/")
    assert "Warm-up" in viewer.get("/reports/").content.decode()
    assert client.post(f"/reports/{report.pk}/do/nothing/").status_code == 404


def test_who_did_not_begin_it_deletes_it_as_a_maintainer_alone(as_user: AsUser, cast: Cast) -> None:
    report = actions.create_report(actor=cast.owner, project=cast.project, title="A", body="")
    assert as_user(cast.mate).post(f"/reports/{report.pk}/do/delete/").status_code == 403
    assert "do/delete" not in as_user(cast.mate).get(f"/reports/{report.pk}/").content.decode()
    assert as_user(cast.owner).post(f"/reports/{report.pk}/do/delete/")["Location"] == "/reports/"
    assert not Report.objects.exists()


def test_a_report_is_put_into_no_project_of_others(as_user: AsUser, cast: Cast) -> None:
    other = Project.objects.create(name="other")
    form = {"project": "other", "title": "A", "body": ""}
    client = as_user(cast.mate)
    assert client.post("/reports/new/", form).status_code == 404
    Membership.objects.create(project=other, user=cast.mate, role=Role.VIEWER)
    assert client.post("/reports/new/", form).status_code == 403
    assert client.post("/reports/preview/", form).status_code == 403
