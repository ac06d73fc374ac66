"""Tries connections to the other nodes of the cluster, one by one and again now and then."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from trainyard.contract.desired import Peer
from trainyard.contract.machines import MAX_PEERS, PeerResult
from workers.node.preflight.listener import NONCE_BYTES, answer_to

LIMIT_S = 2.0
AGAIN_S = 60.0  # after a connection that worked
FAILED_AGAIN_S = 5.0
TRIES = 2  # one lost packet is no fault of a node
NUM_THREADS = 8


class Peers:
    """The nodes around this one, and how the last connection to each went."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}
        self._results: dict[str, PeerResult] = {}
        self._pool = ThreadPoolExecutor(max_workers=NUM_THREADS, thread_name_prefix="probe")

    def set(self, peers: Sequence[Peer]) -> None:
        """Replace the nodes; what is known of one that is listed again, and has not moved, stays."""
        new = {peer.node: peer for peer in peers[:MAX_PEERS]}
        same = {node for node, peer in new.items() if self._peers.get(node) == peer}
        self._results = {node: result for node, result in self._results.items() if node in same}
        self._peers = new

    def results(self) -> dict[str, PeerResult]:
        return dict(self._results)

    def is_due(self) -> bool:
        return any(self._is_due(node) for node in list(self._peers))

    def try_all(self, *, only_due: bool = True) -> None:
        """Try the connections that are due, or all of them. Returns when each has an answer or was waited for."""
        peers = [peer for node, peer in self._peers.items() if not only_due or self._is_due(node)]
        for peer, result in zip(peers, self._pool.map(try_peer, peers), strict=True):
            if self._peers.get(peer.node) == peer:  # else the server has replaced it meanwhile
                self._results[peer.node] = result

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_due(self, node: str) -> bool:
        result = self._results.get(node)
        if result is None:
            return True
        return abs(time.time() - result.at) >= (FAILED_AGAIN_S if result.problem else AGAIN_S)


def try_peer(peer: Peer, *, limit_s: float = LIMIT_S) -> PeerResult:
    """Connect, send, and read the answer: bytes have gone both ways then."""
    problem = ""
    for _ in range(TRIES):
        try:
            return PeerResult(at=time.time(), seconds=_exchange(peer, limit_s))
        except TimeoutError:
            problem = f"nothing answers at {_place(peer)} within {limit_s:g} s: a firewall may drop what is sent there"
        except ConnectionRefusedError:
            problem = f"the connection to {_place(peer)} is refused"
        except ValueError:
            problem = f"something else than {peer.name} answers at {_place(peer)}"
        except OSError as error:
            problem = f"the connection to {_place(peer)} fails: {(error.strerror or str(error)).lower()}"
    return PeerResult(at=time.time(), problem=problem)


def _exchange(peer: Peer, limit_s: float) -> float:
    """Return the seconds from the nonce to its answer. Raises OSError, and ValueError for another's answer."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    wanted = answer_to(nonce, peer.node)
    with socket.create_connection((peer.address, peer.port), timeout=limit_s) as connection:
        began = time.monotonic()
        connection.sendall(nonce)
        answer = b""
        while len(answer) < len(wanted) and (more := connection.recv(len(wanted) - len(answer))):
            answer += more
            connection.settimeout(max(0.05, limit_s - (time.monotonic() - began)))
        took_s = time.monotonic() - began
    if answer != wanted:
        raise ValueError("another answer")
    return took_s


def _place(peer: Peer) -> str:
    return f"{peer.address} port {peer.port}"
