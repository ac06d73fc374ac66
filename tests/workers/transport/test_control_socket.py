from __future__ import annotations

import socket
import threading

import pytest
import structlog

from tests.servers import short_folder
from trainyard.contract.orders import Go
from workers.transport.control_socket import Request, SupervisorAnswer, listen, send_request, serve_one


def test_a_request_and_its_answer_arrive_as_they_were_sent() -> None:
    received: list[Request] = []

    def handle(request: Request) -> SupervisorAnswer:
        received.append(request)
        return SupervisorAnswer(phase="ready", pid=7)

    with short_folder("ty-sock-") as folder, listen(folder / "s" / "one.sock") as server:
        server.setblocking(True)
        thread = threading.Thread(target=serve_one, args=(server, handle))
        thread.start()
        request = Request(do="go", fence=2, go=Go("127.0.0.1", 29500))
        assert send_request(folder / "s" / "one.sock", request) == SupervisorAnswer(phase="ready", pid=7)
        thread.join()
    assert received == [request]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b'{"do": "stop", "fence": "two"}', "fence"),
        (b'{"do": "stop", "cause": "boredom"}', "cause"),
        (b"[]", "the document"),
    ],
)
def test_a_request_of_another_shape_is_dropped_and_its_field_named(line: bytes, field: str) -> None:
    with (
        short_folder("ty-sock-") as folder,
        listen(folder / "s" / "one.sock") as server,
        socket.socket(socket.AF_UNIX) as client,
        structlog.testing.capture_logs() as logs,
    ):
        client.connect(str(folder / "s" / "one.sock"))
        client.sendall(line + b"\n")
        serve_one(server, lambda request: pytest.fail("it was handled"))
        assert client.recv(100) == b""
    assert [(one["event"], one["error"].split(":")[0]) for one in logs] == [("request.refused", field)]
