"""The process manager of MPI's ranks, asked in the words of MPICH's own client."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from typing import IO

import pytest

from workers.rank_process.mpi import MpiWorld, serve

WORLD = MpiWorld("127.0.0.1:0", size=4, num_nodes=2)


class Rank:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.file: IO[bytes] = self.socket.makefile("rwb", buffering=0)

    def say(self, words: bytes) -> None:
        self.file.write(words + b"\n")

    def ask(self, words: bytes) -> bytes:
        self.say(words)
        return self.hear()

    def hear(self) -> bytes:
        return self.file.readline().rstrip(b"\n")

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def ranks() -> Iterator[list[Rank]]:
    """Four of them. Once they have gone the process manager must end by itself."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    manager = threading.Thread(target=lambda: asyncio.run(serve(WORLD, listener)))
    manager.start()
    found = [Rank(port) for _ in range(WORLD.size)]
    yield found
    for one in found:
        one.close()
    manager.join(10)
    assert not manager.is_alive()


def test_a_rank_hears_what_begins_and_ends_its_mpi(ranks: list[Rank]) -> None:
    said = [
        ranks[0].ask(b"cmd=init pmi_version=1 pmi_subversion=1"), ranks[0].ask(b"cmd=get_maxes"),
        ranks[0].ask(b"cmd=get_appnum"), ranks[0].ask(b"cmd=get_universe_size"), ranks[0].ask(b"cmd=finalize"),
    ]  # fmt: skip
    assert said == [
        b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
        b"cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
        b"cmd=appnum appnum=0", b"cmd=universe_size size=4", b"cmd=finalize_ack",
    ]  # fmt: skip
    names = [one.ask(b"cmd=get_my_kvsname").removeprefix(b"cmd=my_kvsname kvsname=") for one in ranks]
    assert re.fullmatch(rb"[0-9a-f]{16}", names[0]) and names == [names[0]] * 4, "no other world has it"


def test_what_one_rank_puts_another_gets_behind_a_barrier_of_all(ranks: list[Rank]) -> None:
    address = rb"fe80\ 1#port$4=5"  # as MPICH escapes a space, with signs that mean something to others
    assert ranks[3].ask(b"cmd=put kvsname=trainyard key=-bc-3 value=" + address) == b"cmd=put_result rc=0 msg=success"
    for one in ranks[1:]:
        one.say(b"cmd=barrier_in")
    ranks[1].socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        ranks[1].hear()
    ranks[0].say(b"cmd=barrier_in")
    assert [one.hear() for one in (ranks[0], *ranks[2:])] == [b"cmd=barrier_out"] * 3
    assert ranks[0].ask(b"cmd=get kvsname=trainyard key=-bc-3") == b"cmd=get_result rc=0 value=" + address
    assert ranks[0].ask(b"cmd=get kvsname=trainyard key=none") == b"cmd=get_result rc=-1 msg=unknown"


def test_ranks_know_which_of_them_share_a_node(ranks: list[Rank]) -> None:
    assert ranks[2].ask(b"cmd=get kvsname=trainyard key=PMI_process_mapping") == (
        b"cmd=get_result rc=0 value=(vector,(0,2,2))"
    )


def test_what_is_not_served_is_refused_and_harms_nobody(ranks: list[Rank]) -> None:
    assert ranks[0].ask(b"mcmd=spawn\nnprocs=2\nexecname=/bin/sh\nendcmd") == b"cmd=spawn_result rc=-1 msg=not_served"
    assert ranks[0].ask(b"cmd=publish_name service=a port=b") == b"cmd=publish_result rc=-1 msg=not_served"
    ranks[1].say(b"\0\xff no line at all " + b"x" * 200_000)
    ranks[2].say(b"= ==\n\n")
    assert ranks[2].ask(b"cmd=get_appnum") == b"cmd=appnum appnum=0"
