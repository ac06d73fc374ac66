"""The form of a Kubernetes cluster with its pod template."""

from __future__ import annotations

import pytest
from django.test import Client

from runs.models import Cluster, Node
from tests.cast import Cast, make_user

TEMPLATE = "  tolerations:\n  - key: gpu\n    operator: Exists"
FORM = {"name": "pods", "projects": ["default"], "settings.image": "trainyard:1", "settings.namespace": "training",
        "settings.claim": "shared", "settings.folder": "/trainyard", "settings.notice": "2m",
        "settings.python": "python3",
        "settings.machines": "3", "settings.pod": TEMPLATE.replace("\n", "\r\n")}  # fmt: skip


@pytest.fixture
def owner(client: Client, cast: Cast) -> Client:
    """An administrator: these clusters use the server's own identity."""
    client.force_login(make_user("administrator", is_staff=True, is_superuser=True))
    return client


def test_a_kubernetes_cluster_comes_from_the_form_and_its_template_keeps_its_indentation(owner: Client) -> None:
    page = owner.get("/nodes/clusters/new/?engine=kubernetes").content.decode()
    assert "Pod template" in page and 'name="settings.pod" rows="12"' in page
    assert owner.post("/nodes/clusters/new/?engine=kubernetes", FORM).status_code == 302
    cluster = Cluster.objects.get(name="pods")
    assert cluster.settings["pod"] == f"{TEMPLATE}\n"
    assert Node.objects.filter(cluster=cluster, kind=Node.Kind.OFFERED).count() == 3
    page = owner.get(f"/nodes/clusters/{cluster.pk}/edit/").content.decode()
    assert TEMPLATE in page
    assert "Kubernetes brings up to 3" in owner.get("/nodes/").content.decode()


def test_a_template_that_is_refused_stays_in_the_form_with_its_path_and_value(owner: Client) -> None:
    form = {**FORM, "settings.pod": "containers:\n- command: [sh]"}
    answer = owner.post("/nodes/clusters/new/?engine=kubernetes", form)
    page = answer.content.decode()
    assert answer.status_code == 422 and "- command: [sh]" in page
    assert "containers[0].command: [&#x27;sh&#x27;] cannot be set here: the pod runs Trainyard&#x27;s node." in page


def test_a_sentence_under_its_field_does_not_repeat_the_fields_name(owner: Client) -> None:
    page = owner.post("/nodes/clusters/new/?engine=kubernetes", {**FORM, "settings.image": "a b"}).content.decode()
    assert "An image such as trainyard:1, not &#x27;a b&#x27;." in page and "image: an image" not in page
