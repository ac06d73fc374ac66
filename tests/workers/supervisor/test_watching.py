from __future__ import annotations

import socket
from pathlib import Path

import pytest

from workers.attempt.folder import AttemptFolder
from workers.supervisor.ranks.state import RankState
from workers.supervisor.watching import Watching, is_listening


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_is_seen_while_somebody_listens_there(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        server.bind((address, 0))
        port = server.getsockname()[1]
        assert is_listening(port) is False  # it is taken, and nobody can connect
        server.listen()
        assert is_listening(port) is True
    assert is_listening(port) is False


def test_where_the_kernel_does_not_say_it_is_not_known(tmp_path: Path) -> None:
    assert is_listening(80, tmp_path) is None


def test_ranks_that_join_at_once_are_seen_in_one_look(tmp_path: Path) -> None:
    watching = Watching.__new__(Watching)
    watching._folder, watching._groups_due_at = AttemptFolder(tmp_path), 0.0
    watching.ranks = [RankState(rank=rank, pid=1, started_at=0.0, group="none") for rank in range(3)]
    for rank in watching.ranks:
        path = watching._folder.joined_path(rank.rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert watching._update_groups() and [rank.group for rank in watching.ranks] == ["joined"] * 3
