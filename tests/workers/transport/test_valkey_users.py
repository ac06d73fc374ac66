"""A node's own user in Valkey: a real node worker trains with it, and it reaches nothing of anybody else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import AuthenticationError, NoPermissionError

from dashboard.up.valkey import version_of
from runs.models import Node
from runs.rights import valkey_users
from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, until
from trainyard.contract.seals import new_key, stream_key, up_key
from workers.transport.node_config import NodeConfig, store_config

SCRIPT = "for step in range(20): print(step, flush=True)"


def row_of(node: ControlledNode) -> Node:
    return Node(pk=node.id, name=node.name, key=node.key)


@pytest.fixture
def node(home: Path, valkey: Valkey, python_without_torch: Path) -> Iterator[ControlledNode]:
    """A node worker whose configuration holds its own user's address alone."""
    one = ControlledNode(home, valkey.url, python=python_without_torch)
    url = valkey_users.url_for(row_of(one))
    assert url != valkey.url
    store_config(one.home, NodeConfig("http://127.0.0.1:9", one.id, one.name, one.key, url, "local"))
    one.valkey.acl_log_reset()
    one.start()
    yield one
    one.close()
    valkey_users.remove(row_of(one))


def denied(node: ControlledNode) -> list[Any]:
    return [entry["object"] for entry in node.valkey.acl_log()]


def test_a_node_trains_ships_and_stops_with_its_own_user_alone(node: ControlledNode) -> None:
    order = node.order(SCRIPT, ranks=2)
    node.launch(order)
    node.wait_for(order, "ended")
    node.wait_until_shipped(order)
    assert len(node.lines(order)) == 40
    assert {client["user"] for client in node.valkey.client_list()} == {"default", valkey_users.user_of(node.id)}
    entries: Any = node.valkey.xrange(stream_key(0))
    assert any(entry[b"r"] == b"" for _, entry in entries), "no health sample came"
    assert node.process is not None
    node.process.terminate()
    node.process.wait(timeout=20)
    assert denied(node) == [], "it asked for more than it may"


def test_a_node_whose_user_valkey_forgot_is_back_when_it_is_made_again(node: ControlledNode) -> None:
    until(node.up)
    node.valkey.acl_deluser(valkey_users.user_of(node.id))
    node.valkey.delete(up_key(node.id))
    assert valkey_users._make([row_of(node)])
    until(node.up)
    order = node.order("print('back')")
    node.launch(order)  # by a command, through Celery, too
    node.wait_for(order, "ended")


def test_a_server_that_does_not_know_every_command_lets_nodes_in_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12's Redis has no CLIENT SETINFO, which clients send if they can."""
    program = shutil.which("redis-server")
    if program is None or not version_of(program).startswith("7.0."):
        pytest.skip("this machine has no redis-server 7.0")
    monkeypatch.setenv("VALKEY_SERVER", program)
    with short_folder("ty-redis-") as folder:
        server = Valkey(folder / "redis", durable=True)
        server.start()
        try:
            with redis.Redis.from_url(server.url) as owner:
                monkeypatch.setattr(valkey_users, "redis", lambda: owner)
                monkeypatch.setattr(valkey_users.settings, "REDIS_URL", server.url)
                url = valkey_users.url_for(Node(pk="mine", name="mine", key=new_key()))
                assert url != server.url
                with redis.Redis.from_url(url) as client:
                    assert client.set(up_key("mine"), "x")
                    with pytest.raises(NoPermissionError):
                        client.get(up_key("other"))
            server.kill()
            server.start()  # with the users in its file
        finally:
            server.stop()


ATTEMPTS = [
    ("GET", "trainyard:down:other"),
    ("GET", "trainyard:up:other"),
    ("SET", "trainyard:up:other", "x"),
    ("SET", "trainyard:report:other:a", "x"),
    ("SET", "trainyard:down:{id}", "x"),
    ("SET", "trainyard:epoch", "x"),
    ("GET", "trainyard:control:tick"),
    ("LPUSH", "control", "x"),
    ("LPUSH", "node.other", "x"),
    ("BRPOP", "node.other", "1"),
    ("BRPOP", "control", "1"),
    ("XRANGE", "trainyard:stream:0", "-", "+"),
    ("XREAD", "STREAMS", "trainyard:stream:0", "0"),
    ("XTRIM", "trainyard:stream:0", "MAXLEN", "0"),
    ("DEL", "trainyard:stream:0"),
    ("SET", "trainyard:stream:0", "x"),
    ("SET", "node.mine", "x"),
    ("GET", "trainyard:stream:0"),
    ("SADD", "trainyard:stream:0", "x"),
    ("BRPOP", "trainyard:stream:0", "1"),
    ("XADD", "trainyard:up:{id}", "*", "d", "x"),
    ("SADD", "_kombu.binding.control", "x"),
    ("HGETALL", "unacked"),
    ("KEYS", "*"),
    ("SCAN", "0"),
    ("MONITOR",),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("CLIENT", "LIST"),
    ("EVAL", "return 1", "0"),
    ("FLUSHALL",),
    ("SHUTDOWN",),
    ("SUBSCRIBE", "trainyard:changed"),
    ("PUBLISH", "trainyard-push", "x"),
]


@pytest.mark.parametrize("words", ATTEMPTS, ids=" ".join)
def test_what_is_not_the_nodes_own_is_denied(valkey: Valkey, words: tuple[str, ...]) -> None:
    row = Node(pk="mine", name="mine", key=new_key())
    with redis.Redis.from_url(valkey_users.url_for(row)) as client:
        assert client.ping()
        with pytest.raises(NoPermissionError):
            client.execute_command(*(word.format(id="mine") for word in words))


def test_a_new_key_is_a_new_password_and_ends_the_connections_of_the_old_one(valkey: Valkey) -> None:
    row = Node(pk="mine", name="mine", key=new_key())
    old = valkey_users.url_for(row)
    with redis.Redis.from_url(old) as client:
        assert client.ping()
        row.key = new_key()
        new = valkey_users.url_for(row)
        with pytest.raises(redis.RedisError):
            client.ping()
            client.ping()
    with redis.Redis.from_url(new) as client:
        assert client.ping()
    valkey_users.remove(row)
    with redis.Redis.from_url(new) as client, pytest.raises(AuthenticationError):
        client.ping()


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("redis://:secret@host:6379/0", "redis://USER@host:6379/0"),
        ("rediss://admin:secret@host:6379/2?ssl_cert_reqs=none", "rediss://USER@host:6379/2?ssl_cert_reqs=none"),
        ("redis://host", "redis://USER@host"),
        ("unix:///run/valkey.sock?db=3", "unix://USER@/run/valkey.sock?db=3"),
        ("unix:///run/valkey.sock?db=3&password=secret&username=admin", "unix://USER@/run/valkey.sock?db=3"),
    ],
)
def test_the_nodes_address_has_nothing_of_the_servers_user(settings: Any, server: str, expected: str) -> None:
    settings.REDIS_URL = server
    row = Node(pk="mine", name="mine", key="00" * 32)
    user = f"{valkey_users.user_of('mine')}:{valkey_users.password_of(row)}"
    assert valkey_users._own_url(row) == expected.replace("USER", user)
