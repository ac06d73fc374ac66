"""Git keys and secrets of clusters: how they lie in their rows, and how those of an older version come along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runs import actions
from runs.engines.cluster_settings.settings import SecretUnreadable, keep_secret, secret_of
from runs.inputs.repositories.keys import _open_secret
from runs.inputs.repositories.problems import RepositoryProblem
from runs.models import Cluster, GitKey
from runs.rights.secrets import store
from tests.cast import Cast

TOKEN = "ghp_0123456789"


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> None:
    settings.HOME = tmp_path


@pytest.fixture
def key(cast: Cast) -> GitKey:
    return actions.add_git_key(
        actor=cast.owner, project=cast.project, kind=GitKey.Kind.TOKEN, place="git.example", secret=TOKEN
    )


def test_what_does_not_open_is_kept_and_named(cast: Cast, key: GitKey) -> None:
    GitKey.objects.update(locked="locked by another SECRET_KEY")
    cast.cluster.secrets = {"token": "locked by another SECRET_KEY"}
    cast.cluster.save()
    with pytest.raises(RepositoryProblem, match=r"git\.example does not open.*another SECRET_KEY.*enter it again"):
        _open_secret(GitKey.objects.get())
    with pytest.raises(SecretUnreadable, match=r"token of cluster local.*enter it again"):
        secret_of(Cluster.objects.get(), "token")
    assert GitKey.objects.get().locked == "locked by another SECRET_KEY", "the old SECRET_KEY may come back"


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
