"""Control keeps a Valkey user for each node, and says where it may not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis as redis_library
import structlog
from django.test import Client

from runs import actions
from runs.models import Node
from runs.presenting import server_state
from runs.rights import valkey_users
from runs.rights.valkey_users import user_of
from runs.serving import node_troubles
from runs.serving.transport import redis
from tests.runs.life.reconcile.conftest import Yard
from tests.servers import Valkey


@pytest.fixture(autouse=True)
def fresh(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has just begun, in a Valkey without users."""
    monkeypatch.setattr(valkey_users, "_made", {})
    monkeypatch.setattr(valkey_users, "_refused_at", None)
    yield
    for name in users():
        redis().acl_deluser(name)


def users() -> set[str]:
    found: Any = redis().acl_users()
    names = {name.decode() if isinstance(name, bytes) else name for name in found}
    return {name for name in names if name.startswith(valkey_users.USER)}


def join(yard: Yard) -> dict[str, Any]:
    _, secret = actions.new_join_token(actor=yard.cast.owner, cluster=yard.cast.cluster)
    body = {"token": secret, "name": "node-c", "inventory": {}}
    answer = Client().post("/api/v1/nodes/join", json.dumps(body), content_type="application/json")
    assert answer.status_code == 201
    return dict(answer.json())


def test_whoever_joins_gets_an_address_that_opens_what_is_its_own(yard: Yard, settings: Any) -> None:
    joined = join(yard)
    assert joined["redis_url"] != settings.REDIS_URL
    with redis_library.Redis.from_url(joined["redis_url"]) as client:
        assert client.set(f"trainyard:up:{joined['id']}", "x")
        with pytest.raises(redis_library.exceptions.NoPermissionError):
            client.get("trainyard:control:tick")


def test_a_tick_makes_the_users_that_valkey_forgot_and_removes_those_of_nobody(yard: Yard) -> None:
    ours = {user_of(voice.node.pk) for voice in yard.voices}
    yard.tick()
    assert users() == ours
    redis().acl_deluser(user_of(yard.voices[0].node.pk))
    redis().execute_command("ACL", "SETUSER", user_of("nobody"), "on")
    yard.tick()
    assert users() == ours


def test_a_removed_node_reaches_valkey_no_more(yard: Yard) -> None:
    yard.tick()
    node = yard.voices[0].node
    actions.stop_run(actor=yard.cast.mate, run=yard.run)
    yard.tick()
    assert user_of(node.pk) in users()
    actions.remove_node(actor=yard.cast.owner, node=node)
    assert user_of(node.pk) not in users()


@pytest.fixture
def limited(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server's user may not make others."""
    redis().execute_command(
        "ACL", "SETUSER", "limited", "reset", "on", ">pw", "~*", "&*", "+@all", "-acl", "-client|list"
    )
    place = settings.REDIS_URL.removeprefix("unix://")
    client = redis_library.Redis.from_url(f"unix://limited:pw@{place}")
    monkeypatch.setattr(valkey_users, "redis", lambda: client)
    yield
    client.close()
    redis().acl_deluser("limited")


def test_no_node_is_let_in_where_it_would_get_the_servers_password(yard: Yard, limited: None) -> None:
    yard.tick()
    _, secret = actions.new_join_token(actor=yard.cast.owner, cluster=yard.cast.cluster)
    body = {"token": secret, "name": "node-c", "inventory": {}}
    answer = Client().post("/api/v1/nodes/join", json.dumps(body), content_type="application/json")
    assert answer.status_code == 503 and "NODES_SHARE_VALKEY_USER" in answer.json()["detail"]
    health = Client().get("/api/v1/health").json()
    assert health["sentences"] and valkey_users.NO_USERS in health["sentences"]


def test_nodes_share_the_servers_user_where_a_setting_says_so(yard: Yard, settings: Any, limited: None) -> None:
    settings.NODES_SHARE_VALKEY_USER = True
    with structlog.testing.capture_logs() as logs:
        assert yard.tick() == "SCHEDULED"
    assert not [one for one in logs if one["event"] == "tick.part_refused"]
    assert users() == set() and not server_state.look().separate_nodes
    assert join(yard)["redis_url"] == settings.REDIS_URL
    health = Client().get("/api/v1/health").json()
    assert health["separate_nodes"] is False and valkey_users.NO_USERS not in health["sentences"]


def test_a_local_node_that_shares_the_servers_user_joins_again(yard: Yard, settings: Any) -> None:
    node = Node.objects.get(name="node-a")
    assert not valkey_users.is_url_of(node, settings.REDIS_URL)
    assert valkey_users.is_url_of(node, valkey_users.url_for(node))


def test_a_node_with_more_connections_than_it_can_need_loses_the_newest(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey_users, "MAX_CONNECTIONS", 20)
    hostile, other = (voice.node for voice in yard.voices)
    clients = [redis_library.Redis.from_url(valkey_users.url_for(node)) for node in [other, *[hostile] * 60]]
    for client in clients:
        client.ping()
    assert sum(one["user"] == user_of(hostile.pk) for one in redis().client_list()) == 60
    with structlog.testing.capture_logs() as logs:
        yard.tick()
    named = [one["sentence"] for one in logs if one["event"] == "valkey.too_many_connections"]
    assert named == ["Node node-a had 60 connections to Valkey; all above 20 were ended."]
    (said,) = node_troubles.sentences_of(hostile.pk)
    assert "this node can need: 40. Last at" in said and node_troubles.sentences_of(other.pk) == []
    health = Client().get("/api/v1/health").json()["sentences"]
    assert [one for one in health if one.startswith("Connections or entries of a node were refused, last at ")], health
    visitor = Client()
    visitor.force_login(yard.cast.owner)
    assert said in visitor.get(f"/nodes/{hostile.pk}/").content.decode()
    left = [one["user"] for one in redis().client_list()]
    assert left.count(user_of(hostile.pk)) == 20 and left.count(user_of(other.pk)) == 1
    for client in clients:
        client.close()
