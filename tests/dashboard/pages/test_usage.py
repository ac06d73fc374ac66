"""The page about the use of slots, and the same as CSV."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from runs.models import Attempt, Cluster, Project, User
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run, make_user

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.usefixtures("valkey")]
AsUser = Callable[[User], Client]


@pytest.fixture
def used(cast: Cast) -> None:
    """Two slots for two hours, ten days ago."""
    attempt = make_attempt(make_run(cast, status=Status.RUNNING), [make_node(cast.cluster)], ranks=2)
    end = timezone.now() - timedelta(days=10)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=end - timedelta(hours=2), ended_at=end)


@pytest.mark.usefixtures("used")
def test_use_is_shown_by_project_person_and_cluster(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.viewer)
    for by, name in (("project", "default"), ("person", "mate"), ("cluster", "local"), ("nothing", "default")):
        text = client.get(f"/usage/?by={by}").content.decode()
        assert f">{name}</td>" in text and ">4<" in text and "no price" in text and "estimated" in text, by
    Cluster.objects.update(slot_hour_price=1.5)
    assert ">6.00</td>" in client.get("/usage/?days=90").content.decode()
    assert "/usage/" in client.get("/account/").content.decode()


@pytest.mark.usefixtures("used")
def test_use_is_shown_and_saved_by_week(as_user: AsUser, cast: Cast) -> None:
    week = f"{timezone.now() - timedelta(days=10):%G-W%V}"
    text = as_user(cast.viewer).get("/usage/?by=week").content.decode()
    assert f">{week}</td>" in text and '<a href="?by=week&amp;days=30"' in text and "ISO 8601" in text
    head, row, *_ = as_user(cast.viewer).get("/usage/?by=week&csv").content.decode().splitlines()
    assert head.startswith("week,slot_seconds,") and row.startswith(f"{week},")


@pytest.mark.usefixtures("used")
def test_what_is_older_or_not_seen_is_not_counted(as_user: AsUser, cast: Cast) -> None:
    assert "in the last 7 days" in as_user(cast.viewer).get("/usage/?days=7").content.decode()
    assert "No run that you see" in as_user(cast.outsider).get("/usage/").content.decode()


@pytest.mark.usefixtures("used")
def test_the_same_is_saved_as_csv_in_which_no_name_is_a_formula(as_user: AsUser, cast: Cast) -> None:
    answer = as_user(cast.viewer).get("/usage/?by=project&csv")
    head, row = answer.content.decode().splitlines()
    assert head == "project,slot_seconds,idle_seconds,energy_joules,is_measured,cost"
    assert row.startswith("default,14400.0,") and 'filename="usage-by-project-30-days.csv"' in str(answer.headers)
    person = make_user("+formula")
    Project.objects.get().runs.update(created_by=person)
    assert as_user(cast.viewer).get("/usage/?by=person&csv").content.decode().splitlines()[1].startswith("'+formula")
