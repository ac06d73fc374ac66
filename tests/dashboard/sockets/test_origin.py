"""Only a page of this very site may open a WebSocket."""

from __future__ import annotations

import pytest

from dashboard.asgi import application
from dashboard.sockets.admission import NOT_FOUND, is_same_origin
from tests.sockets import Socket


def test_our_own_page_may() -> None:
    assert is_same_origin("http://127.0.0.1:8000", "127.0.0.1:8000")
    assert is_same_origin("https://LOCALHOST", "localhost")
    assert is_same_origin("http://[::1]:8000", "[::1]:8000")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("", "127.0.0.1:8000"),
        ("null", "127.0.0.1:8000"),
        ("http://evil.example", "127.0.0.1:8000"),
        ("http://127.0.0.1:8888", "127.0.0.1:8000"),  # another program on this machine
        ("http://127.0.0.1:8000.evil.example", "127.0.0.1:8000"),
        ("http://evil.example", "evil.example"),  # a name of theirs that leads here
        ("file://127.0.0.1:8000", "127.0.0.1:8000"),
        ("http://127.0.0.1:8000", ""),
    ],
)
def test_any_other_may_not(origin: str, host: str) -> None:
    assert not is_same_origin(origin, host)


@pytest.mark.parametrize("path", ["/ws/nosuch/", "/ws/", "/", "/runs/abc/", "/ws/runs/a b/"])
async def test_a_socket_that_there_is_not_is_refused_before_the_handshake(path: str) -> None:
    socket = Socket(application, path, (b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"))
    await socket.send_input({"type": "websocket.connect"})
    assert await socket.receive_output(10) == {"type": "websocket.close", "code": NOT_FOUND}
