"""Connections between nodes: bytes go both ways, or it is said what is wrong."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trainyard.contract.desired import Peer
from workers.node.preflight import peers as peers_module
from workers.node.preflight.peers import NONCE_BYTES, Peers, ProbeListener, try_peer


@pytest.fixture
def listener() -> Iterator[ProbeListener]:
    made = ProbeListener("node-id", "127.0.0.1")
    made.start()
    yield made
    made.stop()
    made.join()


@contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def peer_at(port: int, *, node: str = "node-id", address: str = "127.0.0.1") -> Peer:
    return Peer(node, "node-b", address, port)


def test_a_node_answers_and_the_way_is_timed(listener: ProbeListener) -> None:
    result = try_peer(peer_at(listener.port))
    assert not result.problem
    assert result.seconds is not None and 0 < result.seconds < 1
    assert abs(result.at - time.time()) < 5


def test_a_port_that_takes_connections_and_never_answers_is_named() -> None:
    with silent_port() as port:
        result = try_peer(peer_at(port), limit_s=0.2)
    assert result.problem == (
        f"nothing answers at 127.0.0.1 port {port} within 0.2 s: a firewall may drop what is sent there"
    )
    assert result.seconds is None


def test_a_port_at_which_nobody_listens_is_named() -> None:
    with silent_port() as port:
        pass
    assert try_peer(peer_at(port)).problem == f"the connection to 127.0.0.1 port {port} is refused"


def test_another_node_at_that_port_is_no_answer(listener: ProbeListener) -> None:
    result = try_peer(peer_at(listener.port, node="another-id"))
    assert result.problem == f"something else than node-b answers at 127.0.0.1 port {listener.port}"


def test_one_that_never_sends_holds_up_no_other(listener: ProbeListener) -> None:
    with socket.create_connection(("127.0.0.1", listener.port)) as slow:
        slow.sendall(b"half of it")
        assert not try_peer(peer_at(listener.port), limit_s=1.0).problem


def test_an_answer_that_comes_in_two_halves_is_read_whole(listener: ProbeListener) -> None:
    with socket.create_connection(("127.0.0.1", listener.port)) as slow:
        for half in (bytes(NONCE_BYTES // 2), bytes(NONCE_BYTES // 2)):
            slow.sendall(half)
            time.sleep(0.05)
        assert len(slow.recv(1000)) == 64


def test_results_are_kept_until_they_are_due_again(listener: ProbeListener, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = Peers()
    peer = peer_at(listener.port)
    peers.set([peer])
    assert peers.is_due()
    peers.try_all()
    first = peers.results()
    assert not peers.is_due() and not first["node-id"].problem
    peers.try_all()
    assert peers.results() == first
    peers.try_all(only_due=False)  # somebody waits for it
    assert peers.results() != first
    peers.set([peer])
    assert "node-id" in peers.results()
    peers.set([peer_at(listener.port + 1)])  # it has moved: what was known is of another place
    assert peers.results() == {}
    monkeypatch.setattr(peers_module, "AGAIN_S", 0.0)
    assert peers.is_due()
    peers.stop()


def test_a_port_where_packets_are_dropped_is_named() -> None:
    """The kernel drops attempts at a port whose queue is full, as a firewall does."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        result = try_peer(peer_at(port), limit_s=0.3)
        for one in waiting:
            one.close()
    assert result.problem == (
        f"nothing answers at 127.0.0.1 port {port} within 0.3 s: a firewall may drop what is sent there"
    )
