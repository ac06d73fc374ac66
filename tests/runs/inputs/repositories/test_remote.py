"""Repositories behind real servers: sshd on the loopback, and HTTP with a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runs import actions
from runs.models import GitKey, Run, RunCode
from tests.cast import Cast
from tests.git_servers import Repository, Sshd, http_files
from tests.servers import short_folder
from trainyard.spec import SpecError

pytestmark = pytest.mark.extended


@pytest.fixture(autouse=True)
def own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_DATA_HOSTS", "127.0.0.1")


@pytest.fixture
def sshd() -> Iterator[Sshd]:
    with short_folder("ty-ssh-") as folder:
        made = Sshd(folder / "sshd")
        made.start()
        yield made
        made.stop()


def submit(cast: Cast, url: str) -> Run:
    return actions.submit_run(
        actor=cast.mate, document={"name": "x", "task": {"script": "train.py", "code": {"git": url}}}
    )


def refused(cast: Cast, url: str) -> str:
    with pytest.raises(SpecError) as error:
        submit(cast, url)
    (problem,) = error.value.errors
    assert problem.path == "task.code.git"
    return problem.message


def add_key(cast: Cast, kind: GitKey.Kind, secret: str, place: str = "127.0.0.1") -> GitKey:
    return actions.add_git_key(actor=cast.owner, project=cast.project, kind=kind, place=place, secret=secret, user="")


def test_a_deploy_key_opens_ssh_and_another_host_key_later_closes_it(cast: Cast, tmp_path: Path, sshd: Sshd) -> None:
    repository = Repository(tmp_path / "code")
    commit = repository.commit("First", train="print(1)\n")
    url = sshd.url(repository.folder)
    assert "add a deploy key" in refused(cast, url)
    key = add_key(cast, GitKey.Kind.SSH, sshd.key)
    assert RunCode.objects.get(run=submit(cast, url)).commit == commit
    key.refresh_from_db()
    assert "ssh-ed25519" in key.host_keys and key.used_at is not None
    repository.commit("Second", train="print(2)\n")
    sshd.stop()
    sshd.renew_host_key()
    sshd.start()
    sentence = refused(cast, url)
    assert "shows another host key" in sentence and "delete the Git key and add it again" in sentence
    sshd.stop()
    assert "cannot be reached from the server" in refused(cast, url)


def test_another_key_is_refused(cast: Cast, tmp_path: Path, sshd: Sshd) -> None:
    repository = Repository(tmp_path / "code")
    repository.commit("First", train="")
    with short_folder("ty-ssh-") as folder:
        add_key(cast, GitKey.Kind.SSH, Sshd(folder / "other").key)
    sentence = refused(cast, sshd.url(repository.folder))
    assert "does not take the project's Git key: add a Git key with the right to read" in sentence


def test_a_token_opens_http(cast: Cast, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "code")
    commit = repository.commit("First", train="print(1)\n")
    repository.git("update-server-info")
    with http_files(tmp_path, token="tok-123") as address:
        url = f"{address}/code/.git"
        assert "wants a key, and the project has none for it" in refused(cast, url)
        add_key(cast, GitKey.Kind.TOKEN, "tok-123")
        assert "has none for it" in refused(cast, url), "a token for the host's own port"
        add_key(cast, GitKey.Kind.TOKEN, "tok-wrong", address)
        assert "does not take the project's Git key" in refused(cast, url)
        add_key(cast, GitKey.Kind.TOKEN, "tok-123", address)
        assert RunCode.objects.get(run=submit(cast, url)).commit == commit
        assert "there is no repository at" in refused(cast, f"{address}/nothing")
