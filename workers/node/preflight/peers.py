"""Connections between the nodes of a cluster: each tries those to the others now and then, and answers theirs.

It listens at a port that the kernel chooses, as the master port of a run is chosen, so that a firewall which lets one
through lets the other through. Whoever connects sends NONCE_BYTES and gets a digest of them with this node's id:
nothing else is read, and nothing else is said.
"""

import asyncio
import contextlib
import hashlib
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from trainyard.contract.desired import Peer
from trainyard.contract.machines import MAX_PEERS, PeerResult
from workers.supervisor.ranks.launch import reserve_port

LIMIT_S = 2.0
AGAIN_S = 60.0  # after a connection that worked
FAILED_AGAIN_S = 5.0
TRIES = 2  # one lost packet is no fault of a node
NUM_THREADS = 8
NONCE_BYTES = 32
MAX_CONNECTIONS = 256
ANSWER_LIMIT_S = 3.0  # for one connection
BACKLOG = 128
WAKE_S = 0.5


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
        again_s = FAILED_AGAIN_S if result and result.problem else AGAIN_S
        return result is None or abs(time.time() - result.at) >= again_s


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


def answer_to(nonce: bytes, node: str) -> bytes:
    return hashlib.sha256(nonce + node.encode()).hexdigest().encode()


class ProbeListener(threading.Thread):
    """Thread for all connections of peers: one that never sends its nonce holds up no other."""

    def __init__(self, node: str, address: str) -> None:
        super().__init__(name="probe-listener", daemon=True)
        self._node = node
        self._server = reserve_port(address)
        self._server.listen(BACKLOG)
        self.port: int = self._server.getsockname()[1]
        self._over = threading.Event()
        self._num_open = 0

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._answer, sock=self._server, backlog=BACKLOG):
            while not self._over.is_set():
                await asyncio.sleep(WAKE_S)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._num_open += 1
        with contextlib.suppress(OSError, EOFError):  # it has gone again, or sends nothing
            if self._num_open <= MAX_CONNECTIONS:
                nonce = await asyncio.wait_for(reader.readexactly(NONCE_BYTES), ANSWER_LIMIT_S)
                writer.write(answer_to(nonce, self._node))
        self._num_open -= 1
        writer.close()
