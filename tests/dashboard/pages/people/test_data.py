"""Where a project's data lie: the proof, the bar, and what retention would take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Project, StorageKey, StoredData, User
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]


def test_the_page_shows_each_place_and_what_lies_outside(as_user: AsUser, cast: Cast) -> None:
    Project.objects.filter(pk=cast.project.pk).update(regions="eu", quota_bytes=1000)
    values = {"project": cast.project, "measured_at": timezone.now()}
    StoredData.objects.create(kind="logs", place="this server", region="eu", bytes=850, number=3, **values)
    StoredData.objects.create(kind="datasets", place="s3://bucket", region="", bytes=5, number=1, **values)
    page = as_user(cast.viewer).get(f"/people/{cast.project.pk}/data/").content.decode()
    assert "s3://bucket" in page and "1 place outside." in page and "outside</b>" in page
    assert '<meter class="quota-bar"' in page and "(85 %)" in page
    assert "(85 %)" in as_user(cast.owner).get("/people/?part=time").content.decode()


def test_retention_shows_what_would_go_before_it_is_saved(as_user: AsUser, cast: Cast) -> None:
    client, path = as_user(cast.owner), f"/people/{cast.project.pk}/data/retention/"
    page = client.post(path, {"days-logs": "30", "what": "preview"}).content.decode()
    assert "This would be removed now:" in page and "of 0 runs" in page
    assert Project.objects.get().keep_logs_days is None
    assert client.post(path, {"days-logs": "soon", "what": "save"}).status_code == 422
    assert client.post(path, {"days-logs": "30", "what": "save"}).status_code == 302
    assert Project.objects.get().keep_logs_days == 30


def test_regions_are_chosen_among_those_that_are_known(as_user: AsUser, cast: Cast, settings: Any) -> None:
    settings.SERVER_REGION = "eu"
    client, path = as_user(cast.owner), f"/people/{cast.project.pk}/data/regions/"
    assert client.post(path, {"region": "mars"}).status_code == 422
    assert client.post(path, {"region": "eu"}).status_code == 302
    assert Project.objects.get().regions == "eu"


def test_encryption_is_switched_on_with_its_consequences_in_words(
    as_user: AsUser, cast: Cast, settings: Any, tmp_path: Path
) -> None:
    settings.HOME = tmp_path
    client, path = as_user(cast.owner), f"/people/{cast.project.pk}/data/encryption/"
    before = client.get(f"/people/{cast.project.pk}/data/").content.decode()
    assert "Without it, or a backup of it, nobody reads any of this." in before
    page = client.post(path, {"what": "on"}, follow=True).content.decode()
    assert "with version 1 of this project" in page and "Logs, media and output files that come now" in page
    assert client.post(path, {"what": "new-key"}).status_code == 302 and StorageKey.objects.count() == 2
    assert client.post(path, {"what": "destroy", "confirm": "another"}).status_code == 409
    assert client.post(path, {"what": "off"}).status_code == 302
    assert not Project.objects.get().encrypts_files


LIMITS = {
    "slots": "8", "guaranteed_slots": "2", "weight": "2.5", "slot_hours_month": "", "max_priority": "70",
    "runs_at_once": "3", "slots_per_person": "", "budget_month": "99.5", "max_run_hours": "12",
    "share_group": "lab", "group_weight": "3",
}  # fmt: skip


def test_administrators_set_a_projects_part_of_the_clusters(as_user: AsUser, cast: Cast) -> None:
    type(cast.owner).objects.filter(pk=cast.owner.pk).update(is_superuser=True)
    cast.owner.refresh_from_db()
    path = f"/people/{cast.project.pk}/data/"
    assert as_user(cast.owner).post(f"{path}limits/", LIMITS).status_code == 302
    project = Project.objects.get(pk=cast.project.pk)
    assert (project.slots, project.guaranteed_slots, project.weight, project.slot_hours_month) == (8, 2, 2.5, None)
    assert (project.runs_at_once, project.budget_month, project.max_run_hours) == (3, 99.5, 12.0)
    page = as_user(cast.viewer).get(path).content.decode()
    assert "It has 0 of 3" in page and "<dd>12 h</dd>" in page
    assert "<dd>2.5 in group lab" in page and "limits/" not in page and "no limit" in page
    assert as_user(cast.mate).post(f"{path}limits/", LIMITS).status_code == 404


def test_four_fifths_of_a_limit_are_said(as_user: AsUser, cast: Cast) -> None:
    Project.objects.update(slots=2)
    make_attempt(make_run(cast, status=Status.RUNNING), [make_node(cast.cluster)], ranks=2)
    page = as_user(cast.viewer).get(f"/people/{cast.project.pk}/data/").content.decode()
    assert "Project default holds 2 of the 2 slots that it may." in page


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("slots", "many"), ("slots", "1.5"), ("slots", "1"), ("guaranteed_slots", ""), ("weight", "0"),
        ("runs_at_once", "-1"), ("slots_per_person", "1.5"), ("budget_month", "nan"), ("max_run_hours", "0"),
        ("weight", "nan"), ("group_weight", "0"), ("share_group", "the lab"),
        ("slot_hours_month", "-1"), ("max_priority", "101"), ("max_priority", "9" * 30),
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_is_said_beside_its_field(as_user: AsUser, cast: Cast, name: str, typed: str) -> None:
    type(cast.owner).objects.filter(pk=cast.owner.pk).update(is_superuser=True)
    cast.owner.refresh_from_db()
    answer = as_user(cast.owner).post(f"/people/{cast.project.pk}/data/limits/", {**LIMITS, name: typed})
    page = answer.content.decode()
    assert answer.status_code == 422 and page.count("aria-invalid") == 1 and Project.objects.get().slots is None
    assert f'value="{typed}"' in page, "what was typed stands there"
