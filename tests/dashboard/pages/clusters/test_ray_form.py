"""The form of a Ray cluster, and what it keeps to itself."""

from __future__ import annotations

import pytest
from django.test import Client

from runs.engines.cluster_settings.settings import secret_of
from runs.models import Cluster, Node
from tests.cast import Cast

FORM = {"name": "rays", "projects": ["default"], "settings.address": "ray://head:10001", "settings.folder": "/shared",
        "settings.machines": "3", "settings.slots": "2", "settings.cpus_per_slot": "4", "settings.gpus": "on",
        "settings.gpu_kind": "A100", "settings.strategy": "PACK", "settings.token": "a word of Ray"}  # fmt: skip


@pytest.fixture
def owner(client: Client, cast: Cast) -> Client:
    client.force_login(cast.owner)
    return client


def test_a_ray_cluster_is_made_from_the_form_and_offers_its_machines(owner: Client) -> None:
    assert "Ray&#x27;s address" in owner.get("/nodes/clusters/new/?engine=ray").content.decode()
    assert owner.post("/nodes/clusters/new/?engine=ray", FORM).status_code == 302
    cluster = Cluster.objects.get(name="rays")
    assert cluster.settings["gpus"] is True and cluster.settings["strategy"] == "PACK"
    offered = Node.objects.filter(cluster=cluster, kind=Node.Kind.OFFERED)
    assert [(node.slots, node.accelerator) for node in offered] == [(2, "gpu")] * 3
    assert "Ray brings up to 3" in owner.get("/nodes/").content.decode()


def test_rays_token_is_kept_locked_and_shown_to_nobody(owner: Client) -> None:
    owner.post("/nodes/clusters/new/?engine=ray", FORM)
    cluster = Cluster.objects.get(name="rays")
    assert secret_of(cluster, "token") == "a word of Ray"
    assert "a word of Ray" not in str(cluster.settings) + str(cluster.secrets)
    assert "a word of Ray" not in owner.get(f"/nodes/clusters/{cluster.pk}/edit/").content.decode()
    assert "a word of Ray" not in owner.get("/api/v1/clusters").content.decode()


@pytest.mark.parametrize(
    ("field", "value"), [("address", "head"), ("strategy", "NEAR"), ("resources", "CPU=1"), ("token", "two\nlines")]
)
def test_a_refused_setting_stands_beside_its_field(owner: Client, field: str, value: str) -> None:
    answer = owner.post("/nodes/clusters/new/?engine=ray", {**FORM, f"settings.{field}": value})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert f'id="help-settings.{field}"><span class="problem">' in page.replace("\n", "").replace("  ", "")
    assert not Cluster.objects.filter(name="rays").exists()
