"""The terminal's WebSocket against the library that the server uses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from websockets.sync.server import ServerConnection, serve

from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.rest.session import WebSocket


@pytest.fixture
def port() -> Iterator[int]:
    def echo(connection: ServerConnection) -> None:
        request = connection.request
        assert request is not None
        connection.send(f"{request.path} {request.headers['Origin']} {request.headers['Authorization']}")
        for message in connection:
            if message == "fragments":
                connection.send(iter(["one ", "two ", "three"]))
            elif message == "leave":
                connection.close(4410)
            elif message == "lose":
                connection.close_socket()
            else:
                connection.send(message)

    with serve(echo, "127.0.0.1", 0, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


def test_messages_of_any_length_go_both_ways_until_the_server_closes(port: int) -> None:
    with WebSocket(f"http://127.0.0.1:{port}", "ty_x", "/ws/1/") as ours:
        messages = ours.messages()
        assert next(messages) == f"/ws/1/ http://127.0.0.1:{port} Bearer ty_x"
        for sent in (b"", b"x", "ö" * 100, bytes(range(256)) * 40, b"y" * 70_000):
            ours.send(sent)
            assert next(messages) == sent
        ours.send("fragments")
        assert next(messages) == "one two three"
        ours.send("leave")
        assert list(messages) == []
        assert ours.close_code == 4410


def test_what_is_no_websocket_is_named() -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request).start()
        with pytest.raises(ApiError, match="501") as refused:
            WebSocket(f"http://127.0.0.1:{server.server_port}", "ty_x", "/ws/1/")
    assert refused.value.status == 501


def hang_up(listening: socket.socket) -> None:
    with listening.accept()[0] as connection:
        connection.recv(1 << 16)


def test_the_words_of_a_lost_connection_end_without_a_stop_since_sentences_go_on_behind_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        hanging_up = threading.Thread(target=hang_up, args=(listening,))
        hanging_up.start()
        with Client(address, "ty_any") as client, pytest.raises(Unreachable, match=r"without sending a response$"):
            list(client.texts("runs"))
        hanging_up.join(10)


def test_what_speaks_no_http_is_no_websocket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        with pytest.raises((ApiError, OSError)):
            WebSocket(f"http://127.0.0.1:{server.getsockname()[1]}", "ty_x", "/ws/1/")
        thread.join()


def test_a_lost_connection_and_one_that_is_left_are_errors_of_the_system(port: int) -> None:
    with WebSocket(f"http://127.0.0.1:{port}", "ty_x", "/ws/1/") as ours:
        messages = ours.messages()
        next(messages)
        ours.send("lose")
        with pytest.raises(OSError, match="lost"):
            list(messages)
    with pytest.raises(OSError):
        ours.send("more")
