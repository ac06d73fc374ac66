"""Where a project's data lie: the proof, the bar, and what retention would take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Project, StorageKey, StoredData, User
from tests.cast import Cast

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
