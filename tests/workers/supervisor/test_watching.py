from __future__ import annotations

import socket
from pathlib import Path

import pytest

from workers.supervisor.watching import is_listening


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
