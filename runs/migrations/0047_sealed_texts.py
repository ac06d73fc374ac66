"""Git keys and secrets of clusters were locked with a key made from SECRET_KEY. They go into envelopes, whose keys can be
changed. What does not open, since SECRET_KEY was another one then, stays as it is and must be entered again."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import migrations
from django.utils.crypto import salted_hmac

from runs.secrets.sealed import cluster_place, git_key_place, open_text, seal_text
from trainyard.contract.base import BadMessage, WireStruct
from trainyard.contract.locks import lock, unlock
from trainyard.contract.orders import Locked


class GitSecret(WireStruct):
    """What was locked of a Git key."""

    text: str


def seal(apps: Any, editor: Any) -> None:
    for key in _rows(apps, editor, "GitKey"):
        key.locked = _sealed_git(key)
        key.save(update_fields=["locked"])
    for cluster in _rows(apps, editor, "Cluster"):
        cluster.secrets = {name: _sealed_of_cluster(cluster, name, text) for name, text in cluster.secrets.items()}
        cluster.save(update_fields=["secrets"])


def unseal(apps: Any, editor: Any) -> None:
    for key in _rows(apps, editor, "GitKey"):
        if key.locked.startswith("{"):
            value = open_text(git_key_place(key.project_id, key.pk), key.locked)
            key.locked = lock(_git_lock(), _git_scope(key), GitSecret(value)).locked
            key.save(update_fields=["locked"])
    for cluster in _rows(apps, editor, "Cluster"):
        for name, text in cluster.secrets.items():
            if text.startswith("{"):
                value = open_text(cluster_place(cluster.pk, name), text)
                cluster.secrets[name] = lock(_cluster_lock(), _cluster_scope(cluster, name), value).locked
        cluster.save(update_fields=["secrets"])


def _sealed_git(key: Any) -> str:
    try:
        value = unlock(_git_lock(), _git_scope(key), Locked(key.locked), GitSecret).text
    except BadMessage:
        return str(key.locked)
    return seal_text(git_key_place(key.project_id, key.pk), value)


def _sealed_of_cluster(cluster: Any, name: str, text: str) -> str:
    try:
        value = unlock(_cluster_lock(), _cluster_scope(cluster, name), Locked(text), str)
    except BadMessage:
        return text
    return seal_text(cluster_place(cluster.pk, name), value)


def _rows(apps: Any, editor: Any, model: str) -> list[Any]:
    return list(apps.get_model("runs", model).objects.using(editor.connection.alias))


def _git_lock() -> str:
    return salted_hmac("runs.repositories.keys", "git", secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _git_scope(key: Any) -> str:
    return f"git-key:{key.project_id}:{key.pk}"


def _cluster_lock() -> str:
    return salted_hmac("runs.engines.secrets", "clusters", secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _cluster_scope(cluster: Any, name: str) -> str:
    return f"cluster-secret/{cluster.pk}/{name}"


class Migration(migrations.Migration):
    dependencies = [("runs", "0042_isolation_minimum")]

    operations = [migrations.RunPython(seal, unseal)]
