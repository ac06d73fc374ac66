"""The form of a SageMaker cluster: its secret is kept locked, and a refusal names field and value."""

from __future__ import annotations

from django.test import Client

from runs.engines.cluster_settings.settings import secret_of
from runs.models import Cluster, Node
from tests.cast import Cast
from tests.runs.engines.sagemaker.test_settings import WELL

FORM = {
    "name": "cloud",
    "projects": ["default"],
    **{f"settings.{name}": "\n".join(value) if isinstance(value, list) else value for name, value in WELL.items()},
    "settings.python": "python3",
    "settings.machines": "3",
    "settings.file_system_type": "EFS",
    "settings.file_system_path": "/",
    "settings.time_limit": "24h",
    "settings.spot_wait": "1h",
    "settings.access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "settings.secret_access_key": "never-shown-again",
}


def test_a_sagemaker_cluster_comes_from_the_form_and_its_secret_is_never_shown(client: Client, cast: Cast) -> None:
    client.force_login(cast.owner)
    refused = client.post("/nodes/clusters/new/?engine=sagemaker", {**FORM, "settings.instance_type": "p4d"})
    assert refused.status_code == 422 and "not &#x27;p4d&#x27;" in refused.content.decode()
    assert client.post("/nodes/clusters/new/?engine=sagemaker", FORM).status_code == 302
    cluster = Cluster.objects.get(name="cloud")
    assert secret_of(cluster, "secret_access_key") == "never-shown-again"
    assert "never-shown" not in str(cluster.settings) + str(cluster.secrets)
    assert Node.objects.filter(cluster=cluster, kind=Node.Kind.OFFERED).count() == 3
    page = client.get(f"/nodes/clusters/{cluster.pk}/edit/").content.decode()
    assert "ml.p4d.24xlarge" in page and "never-shown" not in page
