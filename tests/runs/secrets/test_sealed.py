"""Git keys and secrets of clusters: how they lie in their rows, and how those of an older version come along."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection

from runs import actions
from runs.engines.cluster_settings.secrets import SecretUnreadable, keep_secret, secret_of
from runs.models import Cluster, GitKey
from runs.repositories.keys import _open_secret
from runs.repositories.problems import RepositoryProblem
from runs.secrets import store
from tests.cast import Cast
from trainyard.contract.locks import lock

migration = import_module("runs.migrations.0047_sealed_texts")
TOKEN = "ghp_0123456789"


class Editor:
    connection = connection


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


@pytest.fixture
def key(cast: Cast) -> GitKey:
    return actions.add_git_key(
        actor=cast.owner, project=cast.project, kind=GitKey.Kind.TOKEN, place="git.example", secret=TOKEN
    )


def older(key: GitKey, cluster: Cluster) -> None:
    """Store both as the version before did."""
    key.locked = lock(migration._git_lock(), migration._git_scope(key), migration.GitSecret(TOKEN)).locked
    key.save()
    scope = migration._cluster_scope(cluster, "token")
    cluster.secrets = {"token": lock(migration._cluster_lock(), scope, "a word of Ray").locked}
    cluster.save()


def test_what_an_older_version_locked_opens_after_the_migration_and_before_it_again(cast: Cast, key: GitKey) -> None:
    older(key, cast.cluster)
    locked = key.locked
    migration.seal(apps, Editor)
    key.refresh_from_db()
    cast.cluster.refresh_from_db()
    assert key.locked != locked
    assert (_open_secret(key), secret_of(cast.cluster, "token")) == (TOKEN, "a word of Ray")
    stored = key.locked
    migration.seal(apps, Editor)  # what was moved already stays
    assert GitKey.objects.get().locked == stored
    migration.unseal(apps, Editor)
    migration.seal(apps, Editor)
    assert _open_secret(GitKey.objects.get()) == TOKEN
    assert secret_of(Cluster.objects.get(), "token") == "a word of Ray"


def test_what_another_secret_key_locked_is_kept_and_named(cast: Cast, key: GitKey, settings: Any) -> None:
    older(key, cast.cluster)
    settings.SECRET_KEY = "another one"
    migration.seal(apps, Editor)
    assert GitKey.objects.get().locked == key.locked, "it is not thrown away: the old SECRET_KEY may come back"
    with pytest.raises(RepositoryProblem, match=r"git\.example does not open.*another SECRET_KEY.*enter it again"):
        _open_secret(GitKey.objects.get())
    with pytest.raises(SecretUnreadable, match=r"token of cluster local.*enter it again"):
        secret_of(Cluster.objects.get(), "token")


def test_a_rotation_wraps_them_too_and_only_then_forgets_the_old_key(cast: Cast, key: GitKey, tmp_path: Path) -> None:
    keep_secret(cast.cluster, "token", "a word of Ray")
    cast.cluster.save()
    before = (tmp_path / "secrets.key").read_text()
    assert store.rotate_key().num_wrapped == 2
    after = (tmp_path / "secrets.key").read_text()
    assert before.strip() not in after
    assert _open_secret(GitKey.objects.get()) == TOKEN
    assert secret_of(Cluster.objects.get(), "token") == "a word of Ray"


def test_a_text_opens_in_its_own_row_alone(cast: Cast, key: GitKey) -> None:
    key.place, key.pk, key.kind = "git.example/other", "other", GitKey.Kind.SSH
    key.save(force_insert=True)
    with pytest.raises(RepositoryProblem, match="does not open"):
        _open_secret(GitKey.objects.get(pk="other"))
