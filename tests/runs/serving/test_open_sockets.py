"""The number of open sockets, of all webs."""

from __future__ import annotations

import time

import pytest

from runs.serving import open_sockets, transport


@pytest.mark.usefixtures("valkey")
def test_webs_add_up_and_one_that_ended_is_forgotten() -> None:
    assert open_sockets.total() == 0
    open_sockets.write(3)
    transport.redis().hset(open_sockets.KEY, "other:1", f"4 {time.time():.0f}")
    transport.redis().hset(open_sockets.KEY, "gone:1", f"50 {time.time() - 60:.0f}")
    assert open_sockets.total() == 7
    open_sockets.write(0)
    assert open_sockets.total() == 4 and transport.redis().hlen(open_sockets.KEY) == 2
