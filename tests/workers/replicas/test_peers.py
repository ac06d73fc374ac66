from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard.contract.seals import new_key, seal
from workers.replicas.folders import MemoryFolder
from workers.replicas.receiving import KnownAttempt, Receiver
from workers.replicas.sending import PeerConnection, PeerFailed, StatePart, part_scope, read_line

RUN, KEY = "272bay33uw", new_key()
PART = b"weights" * 1000


@pytest.fixture
def folder(tmp_path: Path) -> MemoryFolder:
    return MemoryFolder(tmp_path / "memory", 1 << 20)


@pytest.fixture
def receiver(folder: MemoryFolder) -> Iterator[Receiver]:
    folder.path.mkdir()
    known = {"attempt": KnownAttempt(RUN, 2, KEY)}
    one = Receiver(folder, "127.0.0.1", known.get)
    one.start()
    yield one
    one.close()


open_ones: list[PeerConnection] = []


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    yield
    while open_ones:
        open_ones.pop().close()


def connection(receiver: Receiver, *, key: str = KEY, attempt: str = "attempt") -> PeerConnection:
    open_ones.append(PeerConnection("node-b", "127.0.0.1", receiver.port, attempt=attempt, key=key))
    return open_ones[-1]


def part(data: bytes = PART, **changes: object) -> StatePart:
    about = {"run": RUN, "fence": 2, "step": 20, "name": "rank-0.safetensors", "bytes": len(data)}
    return StatePart(**{**about, "sha256": hashlib.sha256(data).hexdigest(), **changes})  # type: ignore[arg-type]


def names(folder: MemoryFolder) -> list[str]:
    side = folder.run(RUN).peer
    return sorted(str(path.relative_to(side)) for path in side.rglob("*") if path.is_file()) if side.is_dir() else []


def test_what_is_sent_lies_whole_in_the_other_nodes_memory(receiver: Receiver, folder: MemoryFolder) -> None:
    peer = connection(receiver)
    peer.send(part(), [memoryview(PART[:10]), memoryview(PART[10:])])
    peer.send(part(name="rank-1.safetensors"), [memoryview(PART)])
    assert names(folder) == ["step-20.fence-2/rank-0.safetensors", "step-20.fence-2/rank-1.safetensors"]
    assert (folder.run(RUN).peer / "step-20.fence-2" / "rank-0.safetensors").read_bytes() == PART


def test_ranks_may_read_it_whatever_the_node_workers_umask_is(receiver: Receiver, folder: MemoryFolder) -> None:
    """They are another user's where they are isolated, and of the group that the files get."""
    before = os.umask(0o077)
    try:
        connection(receiver).send(part(), [memoryview(PART)])
    finally:
        os.umask(before)
    path = folder.run(RUN).peer / "step-20.fence-2" / "rank-0.safetensors"
    modes = [one.stat().st_mode & 0o777 for one in (path, path.parent, path.parent.parent)]
    assert modes == [0o640, 0o750, 0o750]


def test_with_a_manifest_the_states_before_go(receiver: Receiver, folder: MemoryFolder) -> None:
    peer = connection(receiver)
    for step in (20, 40):
        peer.send(part(step=step), [memoryview(PART)])
    assert len(names(folder)) == 2
    peer.send(part(b"{}", step=40, name="manifest.json"), [memoryview(b"{}")])
    assert names(folder) == ["step-40.fence-2/manifest.json", "step-40.fence-2/rank-0.safetensors"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "../../escaped"}, "is no name of a part"),
        ({"name": "rank-0.safetensors/../x"}, "is no name of a part"),
        ({"run": "other"}, "it is of run other, fence 2"),
        ({"fence": 1}, "fence 1"),
        ({"bytes": 2 << 20}, r"2\.0 MiB more do not fit .* at most 1\.0 MiB"),
        ({"sha256": "0" * 64}, "its SHA-256 differs"),
        ({"step": -1}, "step -1"),
        ({"bytes": -1}, "-1 bytes"),
    ],
    ids=str,
)
def test_a_wrong_part_is_refused_with_the_reason(
    changes: dict[str, object], why: str, receiver: Receiver, folder: MemoryFolder
) -> None:
    with pytest.raises(PeerFailed, match=f"node-b did not take it: .*{why}"):
        connection(receiver).send(part(**changes), [memoryview(PART)])
    assert names(folder) == []


def test_who_has_another_key_or_no_attempt_gets_no_answer(receiver: Receiver, folder: MemoryFolder) -> None:
    for peer in (connection(receiver, key=new_key()), connection(receiver, attempt="other")):
        with pytest.raises(PeerFailed, match="cannot be reached"):
            peer.send(part(), [memoryview(PART)])
    assert names(folder) == []


def test_a_message_counts_once_and_on_its_connection_alone(receiver: Receiver, folder: MemoryFolder) -> None:
    """What somebody overheard on one connection is no key to the next."""
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=5) as first:
        line = f"attempt {seal(KEY, part_scope(read_line(first), 1), part())}\n".encode()
        first.sendall(line)
        assert read_line(first)  # there is room
        first.sendall(PART)
        assert read_line(first)
        first.sendall(line)
        assert first.recv(100) == b""
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=5) as second:
        read_line(second)
        second.sendall(line)
        assert second.recv(100) == b""


def test_half_a_part_is_none(receiver: Receiver, folder: MemoryFolder) -> None:
    with socket.create_connection(("127.0.0.1", receiver.port), timeout=5) as one:
        one.sendall(f"attempt {seal(KEY, part_scope(read_line(one), 1), part())}\n".encode())
        read_line(one)
        one.sendall(PART[:100])
        one.shutdown(socket.SHUT_WR)
        assert read_line(one)
    assert names(folder) == []


def test_a_node_that_does_not_answer_is_left_alone_for_a_while(receiver: Receiver) -> None:
    peer = connection(receiver)
    receiver.close()
    for _ in range(2):
        with pytest.raises(PeerFailed, match=r"node-b at 127\.0\.0\.1:\d+ cannot be reached"):
            peer.send(part(), [memoryview(PART)])


def test_a_port_that_is_taken_is_no_trouble(receiver: Receiver, folder: MemoryFolder) -> None:
    other = Receiver(folder, "127.0.0.1", lambda attempt: None, receiver.port)
    assert other.port != receiver.port
    other.close()
