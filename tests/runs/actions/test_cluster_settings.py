"""What a cluster's settings name on the server itself is an administrator's, and a secret goes only where it was given
for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ValidationError
from django.test import Client

from runs import actions
from runs.models import Cluster, ClusterRole, User
from tests.cast import Cast, make_user

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
SLURM = {"folder": "/shared", "python": "/opt/python"}
LOGIN = {**SLURM, "ssh_host": "login", "ssh_user": "train", "ssh_host_key": HOST_KEY}
SSH = {"folder": "/trainyard", "hosts": [f"train@one {HOST_KEY}"]}
RAY = {"address": "head:6379", "folder": "/shared"}
KUBERNETES = {"image": "trainyard:1", "claim": "shared"}
AWS = {
    "region": "eu-central-1", "role": "arn:aws:iam::123456789012:role/training", "image": "trainyard:1",
    "instance_type": "ml.p4d.24xlarge", "subnets": ["subnet-0123456789abcdef0"],
    "security_groups": ["sg-0123456789abcdef0"], "file_system": "fs-0123456789abcdef0",
    "output": "s3://bucket/trainyard",
}  # fmt: skip
ON_SERVER = [
    ("ray", RAY, {"ray_python": "/tmp/mine"}),
    ("ray", RAY, {"runtime_env": '{"pip": "/etc/shadow"}'}),
    ("kubernetes", KUBERNETES, {"kubeconfig": "/tmp/exec-plugin"}),
    ("kubernetes", KUBERNETES, {"context": "admin"}),
    ("slurm", LOGIN, {"slurm_conf": "/tmp/plugin-dir"}),
    ("slurm", LOGIN, {"ssh_key_file": "ssh/another.key"}),
    ("slurm", LOGIN, {"ssh_host": ""}),
    ("ssh", SSH, {"ssh_key_file": "ssh/another.key"}),
    ("sagemaker", AWS, {"endpoint": "http://169.254.169.254"}),
]
PLACES = [
    ("ray", RAY, "token", "secret", {"address": "evil:6379"}),
    ("slurm", LOGIN, "ssh_key", KEY, {"ssh_host": "evil"}),
    ("slurm", LOGIN, "ssh_key", KEY, {"ssh_port": 2222}),
    ("ssh", SSH, "ssh_key", KEY, {"hosts": [*SSH["hosts"], f"train@evil {HOST_KEY}"]}),
    ("ssh", SSH, "ssh_key", KEY, {"hosts": [f"root@one {HOST_KEY}"]}),
    ("sagemaker", AWS, "secret_access_key", "secret", {"endpoint": "http://evil"}),
]
# A cluster with access of its own, and what of it is left empty for the server's.
IDENTITIES = [
    ("kubernetes", {**KUBERNETES, "kubeconfig": "/etc/lab.kubeconfig"}, "kubeconfig"),
    ("sagemaker", {**AWS, "access_key_id": "AKIAIOSFODNN7EXAMPLE"}, "access_key_id"),
    ("slurm", LOGIN, "ssh_host"),
]


@pytest.fixture
def administrator(cast: Cast) -> User:
    return make_user("administrator", is_superuser=True, is_staff=True)


def operator_of(cluster: Cluster) -> User:
    group = Group.objects.create(name="operators")
    ClusterRole.objects.create(group=group, cluster=cluster, role=ClusterRole.Kind.OPERATOR)
    operator = make_user("operator")
    operator.groups.add(group)
    return operator


@pytest.mark.parametrize(("engine", "settings", "change"), ON_SERVER)
def test_what_the_server_itself_uses_is_changed_by_an_administrator_alone(
    cast: Cast, administrator: User, engine: str, settings: dict[str, Any], change: dict[str, Any]
) -> None:
    cluster = actions.create_cluster(actor=administrator, name="far", engine=engine, settings=settings)
    for actor in (cast.owner, operator_of(cluster)):
        assert actions.edit_cluster(actor=actor, cluster=cluster, settings={**settings, "machines": 3}
                                    if engine != "ssh" else settings)  # fmt: skip
        with pytest.raises(ValidationError, match="Only an administrator"):
            actions.edit_cluster(actor=actor, cluster=cluster, settings={**settings, **change})
    if change != {"ssh_host": ""}:
        with pytest.raises(ValidationError, match="Only an administrator"):
            actions.create_cluster(actor=cast.owner, name="new", engine=engine, settings={**settings, **change})
    cluster.refresh_from_db()
    actions.edit_cluster(actor=administrator, cluster=cluster, settings={**settings, **change})
    kept = Cluster.objects.get(pk=cluster.pk).settings
    assert {name: kept[name] for name in change} == change
    actions.edit_cluster(actor=cast.owner, cluster=cluster, settings=kept, name="renamed")


@pytest.mark.parametrize(("engine", "settings", "secret", "value", "change"), PLACES)
def test_a_secret_goes_elsewhere_only_where_it_is_given_anew(
    cast: Cast,
    administrator: User,
    engine: str,
    settings: dict[str, Any],
    secret: str,
    value: str,
    change: dict[str, Any],
) -> None:
    cluster = actions.create_cluster(
        actor=administrator, name="far", engine=engine, settings={**settings, secret: value}
    )
    for actor in (cast.owner, administrator):
        with pytest.raises(ValidationError) as refused:
            actions.edit_cluster(actor=actor, cluster=cluster, settings={**settings, **change})
        cluster.refresh_from_db()
        assert actor == cast.owner or "Give it anew" in str(refused.value)
    actions.edit_cluster(actor=administrator, cluster=cluster, settings={**settings, **change, secret: value})
    actions.edit_cluster(actor=administrator, cluster=cluster, settings={**settings, **change}, name="renamed")
    actions.edit_cluster(actor=administrator, cluster=cluster, settings={**settings, secret: ""})


def test_machines_that_a_key_file_of_the_server_opens_are_an_administrators(cast: Cast, administrator: User) -> None:
    settings = {**SSH, "ssh_key_file": "keys/lab"}
    cluster = actions.create_cluster(actor=administrator, name="far", engine="ssh", settings=settings)
    other = {**settings, "hosts": [f"root@bank {HOST_KEY}"]}
    with pytest.raises(ValidationError, match="Only an administrator"):
        actions.edit_cluster(actor=cast.owner, cluster=cluster, settings=other)
    more = {**settings, "hosts": [f"train@one slots=4 {HOST_KEY}"]}
    actions.edit_cluster(actor=cast.owner, cluster=cluster, settings=more)


def test_the_administration_asks_the_same(cast: Cast, administrator: User, client: Client) -> None:
    """Staff with the permission change a cluster there too: to another engine, which would take the key elsewhere."""
    cluster = actions.create_cluster(
        actor=administrator, name="far", engine="slurm", settings={**LOGIN, "ssh_key": KEY}
    )
    cast.owner.user_permissions.set(
        Permission.objects.filter(content_type__app_label="runs", content_type__model="cluster")
    )
    client.force_login(cast.owner)
    address = f"/admin/runs/cluster/{cluster.pk}/change/"
    for engine, settings in (
        ("slurm", {**LOGIN, "slurm_conf": "/tmp/plugin-dir"}),
        ("slurm", {**LOGIN, "ssh_host": "evil"}),
        ("ssh", {**SSH, "hosts": [f"train@evil {HOST_KEY}"]}),
    ):
        answer = client.post(
            address, {"name": "far", "engine": engine, "settings": json.dumps(settings), "labels": "{}", "region": ""}
        )
        assert answer.status_code == 200, "the form is shown again"
        cluster.refresh_from_db()
        assert (cluster.engine, cluster.settings["ssh_host"], cluster.settings["slurm_conf"]) == ("slurm", "login", "")
    answer = client.post(
        address, {"name": "far-2", "engine": "slurm", "settings": json.dumps(LOGIN), "labels": "{}", "region": ""}
    )
    assert answer.status_code == 302


@pytest.mark.parametrize(("engine", "settings", "field"), IDENTITIES)
def test_the_servers_own_identity_is_lent_by_an_administrator_alone(
    cast: Cast, administrator: User, engine: str, settings: dict[str, Any], field: str
) -> None:
    """Where the access is left empty, the server asks the other system in its own name."""
    empty = {name: value for name, value in settings.items() if name not in (field, "python")}
    with pytest.raises(ValidationError, match="server's own identity"):
        actions.create_cluster(actor=cast.owner, name="new", engine=engine, settings=empty)
    empty = {**empty, field: ""}
    cluster = actions.create_cluster(actor=administrator, name="far", engine=engine, settings=settings)
    with pytest.raises(ValidationError, match="Only an administrator"):
        actions.edit_cluster(actor=cast.owner, cluster=cluster, settings=empty)
    cluster.refresh_from_db()
    assert actions.edit_cluster(actor=administrator, cluster=cluster, settings=empty)
    assert actions.edit_cluster(actor=cast.owner, cluster=cluster, settings={**empty, "machines": 3})
