"""The form of a cluster whose engine brings nodes, and its card."""

from __future__ import annotations

import time

import pytest
from django.test import Client

from runs.models import Cluster, Node
from tests.cast import Cast, make_user

FORM = {"name": "hpc", "projects": ["default"], "settings.folder": "/shared", "settings.machines": "3",
        "settings.partition": "main", "settings.options": "exclude=c7\nnice=10"}  # fmt: skip


@pytest.fixture
def owner(client: Client, cast: Cast) -> Client:
    """An administrator: these clusters use the server's own identity."""
    client.force_login(make_user("administrator", is_staff=True, is_superuser=True))
    return client


def test_the_form_shows_the_settings_of_its_engine(owner: Client) -> None:
    assert "Shared folder" not in owner.get("/nodes/clusters/new/").content.decode()
    page = owner.get("/nodes/clusters/new/?engine=slurm").content.decode()
    assert "Shared folder" in page and 'name="settings.partition"' in page and "?engine=celery" in page


def test_a_slurm_cluster_comes_from_the_form_and_offers_machines(owner: Client) -> None:
    assert owner.post("/nodes/clusters/new/?engine=slurm", FORM).status_code == 302
    cluster = Cluster.objects.get(name="hpc")
    assert (cluster.engine, cluster.settings["partition"], cluster.settings["machines"]) == ("slurm", "main", 3)
    assert cluster.settings["options"] == ["exclude=c7", "nice=10"]
    assert Node.objects.filter(cluster=cluster, kind=Node.Kind.OFFERED).count() == 3
    page = owner.get("/nodes/").content.decode()
    assert "Slurm brings up to 3" in page and "hpc-1" not in page and "They leave with their runs" in page


def test_the_card_says_why_there_are_so_many_machines_that_stay(owner: Client) -> None:
    assert owner.post("/nodes/clusters/new/?engine=slurm", {**FORM, "settings.pool_idle": "10m"}).status_code == 302
    sentence = "1 of at most 3 nodes, 1 on the way: 2 runs wait for 4 slots."
    Cluster.objects.filter(name="hpc").update(pool={"sentence": sentence, "asked_at": time.time() - 20})
    page = owner.get("/nodes/").content.decode()
    assert sentence in page and "Last asked for one" in page and "They leave with their runs" not in page


@pytest.mark.parametrize(
    ("field", "value"),
    [("folder", "shared"), ("machines", "many"), ("options", "wrap=id"), ("partition", "a b"), ("time_limit", "soon")],
)
def test_a_refused_setting_stands_beside_its_field(owner: Client, field: str, value: str) -> None:
    answer = owner.post("/nodes/clusters/new/?engine=slurm", {**FORM, f"settings.{field}": value})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert f'id="help-settings.{field}"><span class="problem">' in page.replace("\n", "").replace("  ", "")
    assert not Cluster.objects.filter(name="hpc").exists()


def test_settings_are_edited_and_the_offer_follows(owner: Client) -> None:
    owner.post("/nodes/clusters/new/?engine=slurm", FORM)
    cluster = Cluster.objects.get(name="hpc")
    assert 'value="main"' in owner.get(f"/nodes/clusters/{cluster.pk}/edit/").content.decode()
    owner.post(f"/nodes/clusters/{cluster.pk}/edit/", {**FORM, "settings.machines": "1", "settings.slots": "4"})
    assert list(Node.objects.filter(cluster=cluster).values_list("slots", flat=True)) == [4]


def test_rest_refuses_settings_by_name(owner: Client) -> None:
    body = {"name": "hpc", "engine": "slurm", "settings": {"folder": "/shared", "partition": "a b"}}
    answer = owner.post("/api/v1/clusters", body, content_type="application/json")
    assert answer.status_code == 422
    assert "'a b'" in answer.content.decode() and "partition" in answer.content.decode()
    answer = owner.post("/api/v1/clusters", {"name": "x", "engine": "mesos"}, content_type="application/json")
    assert "There is no engine 'mesos'" in answer.content.decode()
