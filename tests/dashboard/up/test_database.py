"""The token in ``client.toml``: it lasts two hours, the next one is there after one, and none outlives `up`."""

from __future__ import annotations

import stat
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from dashboard.up import database
from dashboard.up.checks import CannotStart
from runs import actions
from runs.models import Node, Token
from runs.rights.access import token_of_machine, user_of_token
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run


def written(home: Path) -> str:
    """The token that the secret in the file is exchanged for."""
    return token_of_machine(str(tomllib.loads((home / database.CLIENT).read_text())["token"]))


def test_the_machines_token_is_short_lived_and_renewed_before_it_ends(cast: Cast, tmp_path: Path) -> None:
    database.write_client(tmp_path, "http://127.0.0.1:1", cast.owner)
    first = written(tmp_path)
    assert stat.S_IMODE((tmp_path / database.CLIENT).stat().st_mode) == 0o600
    expires_at = Token.objects.get().expires_at
    assert expires_at is not None and expires_at <= timezone.now() + timedelta(hours=2)
    assert timedelta(seconds=database.RENEW_EVERY_S) < database.CLIENT_LIFE
    database.write_client(tmp_path, "http://127.0.0.1:1", cast.owner)
    second = written(tmp_path)
    assert user_of_token(first) == user_of_token(second) == cast.owner, "a command that goes on keeps its token"
    Token.objects.order_by("created_at").filter(pk=Token.objects.earliest("created_at").pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    assert user_of_token(first) is None and user_of_token(second) == cast.owner


def test_none_of_its_tokens_outlives_up_and_others_stay(cast: Cast, tmp_path: Path) -> None:
    _, kept = actions.create_token(actor=cast.owner, name="ci")
    for _ in range(2):
        database.write_client(tmp_path, "http://127.0.0.1:1", cast.owner)
    database.revoke_client(tmp_path)
    assert user_of_token(written(tmp_path)) is None and user_of_token(kept) == cast.owner
    assert Token.objects.count() == 1


def test_a_token_for_ever_of_an_older_version_ends_at_the_next_start(cast: Cast, tmp_path: Path) -> None:
    _, old = actions.create_token(actor=cast.owner, name="this machine")
    (tmp_path / database.CLIENT).write_text(f'url = "http://127.0.0.1:1"\ntoken = "{old}"\n')
    database.revoke_client(tmp_path)
    assert user_of_token(old) is None
    database.revoke_client(tmp_path / "nothing")


def local_node(cast: Cast, home: Path, name: str) -> Node:
    """A node that `up` started here before."""
    node = make_node(cast.cluster, name)
    folder = home / "nodes" / name
    folder.mkdir(parents=True)
    (folder / "node.toml").write_text(f'id = "{node.pk}"\nkey = "{node.key}"\nredis_url = ""\n')
    return node


def names() -> list[str]:
    return list(Node.objects.filter(removed_at=None).values_list("name", flat=True))


def test_nodes_that_up_started_before_and_not_now_are_removed(cast: Cast, tmp_path: Path) -> None:
    for name in ("local-1", "local-2", "gpu-1"):  # somebody started gpu-1 in this home by hand
        local_node(cast, tmp_path, name)
    make_node(cast.cluster, "local-3")  # of another server with the same database
    assert database.remove_other_nodes(tmp_path, ["local-1"], cast.owner) == []
    assert names() == ["gpu-1", "local-1", "local-3"]
    assert database.remove_other_nodes(tmp_path, ["local-1"], cast.owner) == []


def test_a_removed_local_node_comes_back_when_up_starts_it_again(cast: Cast, tmp_path: Path) -> None:
    node = local_node(cast, tmp_path, "local-2")
    database.remove_other_nodes(tmp_path, ["local-1"], cast.owner)
    secret = database.join_secret(tmp_path / "nodes" / "local-2", "local-2", cast.owner)
    assert secret is not None
    assert actions.join_node(secret=secret, name="local-2").pk == node.pk and names() == ["local-2"]


def test_a_local_node_that_a_run_holds_is_removed_when_the_run_has_left_it(cast: Cast, tmp_path: Path) -> None:
    node = local_node(cast, tmp_path, "local-2")
    attempt = make_attempt(make_run(cast), [node])
    assert database.remove_other_nodes(tmp_path, [], cast.owner) == ["local-2"] and names() == ["local-2"]
    attempt.ended_at = timezone.now()
    attempt.save()
    assert database.remove_other_nodes(tmp_path, [], cast.owner) == [] and names() == []


def test_only_runs_on_nodes_that_were_started_here_are_said_to_end(cast: Cast) -> None:
    here, there = make_node(cast.cluster, "local-1"), make_node(cast.cluster, "far")
    for node in (here, there):
        run = make_run(cast, status=Status.RUNNING, name=f"on-{node.name}")
        make_attempt(run, [node])
    assert database.live_runs(["local-1"]) == (["on-local-1"], 2)
    assert database.live_runs([]) == ([], 2), "where no node was started, as when `up` fails before"


def test_a_database_below_the_oldest_that_is_tested_is_refused(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OLDEST", {name: (word, (99,)) for name, (word, _) in database.OLDEST.items()})
    with pytest.raises(CannotStart, match=r" is (SQLite|PostgreSQL) \d+\.\d+.*; Trainyard needs 99 or newer"):
        database.open_database(only_look=True)
