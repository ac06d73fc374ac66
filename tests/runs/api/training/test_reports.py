"""Reports over REST: what is saved is read back, and nothing overwrites what its author has not seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runs.models import AuditEntry, Membership, Project, Report, ReportVersion, Role
from tests.cast import Cast, make_user
from tests.runs.api.conftest import Api

pytestmark = pytest.mark.django_db


def made(api: Api, title: str = "Warm-up", body: str = "# What we saw") -> str:
    answer = api("POST", "/reports", {"project": "default", "title": title, "body": body})
    assert answer.status_code == 201 and set(answer.json()) == {"id", "url"}
    assert answer.json()["url"] == f"/reports/{answer.json()['id']}/"
    return str(answer.json()["id"])


def test_a_report_is_made_read_changed_listed_and_deleted(mate: Api) -> None:
    report_id = made(mate)
    known = mate("GET", f"/reports/{report_id}").json()
    assert known["title"] == "Warm-up" and known["body"] == "# What we saw" and known["version"] == 1
    assert known["author"] == known["created_by"] == "mate"
    changed = mate("PUT", f"/reports/{report_id}", {"title": "Warmer", "body": "Less.", "version": 1})
    assert changed.status_code == 200 and changed.json()["version"] == 2
    listed = mate("GET", "/reports?project=default").json()
    assert [(one["id"], one["title"]) for one in listed["items"]] == [(report_id, "Warmer")] and listed["next"] is None
    assert [one.body for one in ReportVersion.objects.order_by("number")] == ["# What we saw", "Less."]
    assert mate("DELETE", f"/reports/{report_id}").status_code == 204 and not ReportVersion.objects.exists()
    acts = AuditEntry.objects.filter(action__startswith="report.").order_by("sequence")
    assert [one.action for one in acts] == ["report.created", "report.changed", "report.deleted"]
    assert all(report_id in one.object and one.project == "default" for one in acts)


def test_an_old_version_overwrites_nothing(mate: Api, as_: Callable[[str], Api]) -> None:
    report_id = made(mate)
    assert mate("PUT", f"/reports/{report_id}", {"title": "A", "body": "a", "version": 1}).status_code == 200
    late = as_("owner")("PUT", f"/reports/{report_id}", {"title": "B", "body": "b", "version": 1})
    assert late.status_code == 409 and late.json()["detail"] == "Version 2 is the newest, not 1. Nothing was saved."
    assert mate("GET", f"/reports/{report_id}").json()["body"] == "a" and ReportVersion.objects.count() == 2
    assert mate("PUT", f"/reports/{report_id}", {"title": "B", "body": "b", "version": 3}).status_code == 409


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"title": " "}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"body": "x" * 100_001}, "body"),
        ({"more": 1}, "more"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_field(change: dict[str, object], path: str, mate: Api) -> None:
    answer = mate("POST", "/reports", {"project": "default", "title": "A", "body": "", **change})
    assert answer.status_code == 422 and [one["path"] for one in answer.json()["errors"]] == [path]
    assert not Report.objects.exists()


def test_who_only_looks_reads_and_changes_nothing(mate: Api, as_: Callable[[str], Api]) -> None:
    report_id, viewer, outsider = made(mate), as_("viewer"), as_("outsider")
    assert viewer("GET", f"/reports/{report_id}").status_code == 200
    assert viewer("PUT", f"/reports/{report_id}", {"title": "B", "body": "b", "version": 1}).status_code == 403
    assert outsider("GET", f"/reports/{report_id}").status_code == 404
    assert outsider("GET", "/reports").json()["items"] == []


def test_a_member_deletes_their_own_report_and_a_maintainer_that_of_others(
    mate: Api, as_: Callable[[str], Api], cast: Cast
) -> None:
    report_id = made(as_("owner"))
    answer = mate("DELETE", f"/reports/{report_id}")
    assert answer.status_code == 403 and Report.objects.exists()
    maintainer = make_user("maintainer")
    Membership.objects.create(project=Project.objects.get(name="default"), user=maintainer, role=Role.MAINTAINER)
    assert Api(maintainer)("DELETE", f"/reports/{report_id}").status_code == 204
