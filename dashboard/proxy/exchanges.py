"""What a browser and an app have to say to each other over a connection of a tunnel: one request and its answer as
HTTP/1.1, or one WebSocket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import h11
from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from dashboard.http.asgi import Receive, Send
from dashboard.proxy.headers import LOOPBACK, Headers, towards_browser
from dashboard.proxy.tunnel import Channel, NotPassedOn

MAX_BODY_BYTES = 512 * 1024 * 1024
HEAD_BYTES = 64 * 1024
ANSWER_S = 300.0  # until the app begins to answer, after the whole request has come
BODY_S = 60.0  # until the next part of a request's body


class NotAnswered(Exception):
    """The app's answer did not come or is no HTTP."""


class TooLarge(NotPassedOn):
    def __init__(self) -> None:
        super().__init__(413, f"A request has at most {MAX_BODY_BYTES:,} bytes.")


class ClientGone(Exception):
    """The browser has left, or sends nothing more."""


class Outgoing(NamedTuple):
    method: bytes
    target: bytes
    headers: Headers
    length: int | None  # of the body; None where that comes in chunks


class Exchange:
    def __init__(self, channel: Channel, send: Send, *, own_origin: str, port: int) -> None:
        self._channel, self._send, self._own_origin, self._port = channel, send, own_origin, port
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self.has_begun = False  # to answer the browser

    async def run(self, outgoing: Outgoing, receive: Receive) -> None:
        """Pass both on. Raises NotAnswered, TooLarge, ClientGone, TunnelClosed."""
        body = _Body(receive)
        uploading = asyncio.create_task(self._upload(outgoing, body))
        answering = asyncio.create_task(self._answer(uploading))
        leaving = asyncio.create_task(body.left())
        tasks = {uploading, answering, leaving}
        try:
            while not answering.done():
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                tasks -= done
                if leaving in done and not answering.done():
                    raise ClientGone
                if uploading in done and (error := uploading.exception()) and not self.has_begun:
                    raise error
            answering.result()
        except h11.RemoteProtocolError as error:
            raise NotAnswered(f"What it answers is no HTTP: {error}.") from error
        except h11.LocalProtocolError as error:
            raise NotAnswered(f"The request cannot be passed on: {error}.") from error
        finally:
            for task in (uploading, answering, leaving):
                task.cancel()
            await asyncio.gather(uploading, answering, leaving, return_exceptions=True)

    async def _upload(self, outgoing: Outgoing, body: "_Body") -> None:
        headers = [*outgoing.headers, (b"connection", b"close")]
        if outgoing.length is None:
            headers.append((b"transfer-encoding", b"chunked"))
        elif outgoing.length or outgoing.method not in (b"GET", b"HEAD", b"OPTIONS"):
            headers.append((b"content-length", str(outgoing.length).encode()))
        await self._write(h11.Request(method=outgoing.method, target=outgoing.target, headers=headers))
        async for part in body.parts():
            await self._write(h11.Data(data=part))
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        data = self._connection.send(event)
        if data:
            await self._channel.write(data)

    async def _answer(self, uploading: asyncio.Task[None]) -> None:
        while True:
            event = await self._next_event(uploading)
            if isinstance(event, h11.Response):
                headers = towards_browser(list(event.headers.raw_items()), own_origin=self._own_origin, port=self._port)
                self.has_begun = True
                await self._send({"type": "http.response.start", "status": event.status_code, "headers": headers})
            elif isinstance(event, h11.Data):
                await self._send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            elif not isinstance(event, h11.InformationalResponse):  # the connection is over
                raise NotAnswered("It closed the connection.")

    async def _next_event(self, uploading: asyncio.Task[None]) -> object:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            limit_s = None if self.has_begun or not uploading.done() else ANSWER_S
            try:
                async with asyncio.timeout(limit_s):
                    data = await self._channel.read()
            except TimeoutError as error:
                raise NotAnswered(f"It has not answered for {ANSWER_S:g} s.") from error
            if not data and not self.has_begun:
                raise NotAnswered("It closed the connection.")
            self._connection.receive_data(data)
        return event


class _Body:
    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_whole = asyncio.Event()

    async def parts(self) -> AsyncIterator[bytes]:
        """Raises TooLarge, ClientGone."""
        num_bytes, is_more = 0, True
        while is_more:
            try:
                async with asyncio.timeout(BODY_S):
                    message = await self._receive()
            except TimeoutError as error:
                raise ClientGone from error
            if message["type"] != "http.request":
                raise ClientGone
            part = message.get("body", b"")
            num_bytes += len(part)
            if num_bytes > MAX_BODY_BYTES:
                raise TooLarge
            is_more = message.get("more_body", False)
            if part:
                yield part
        self._is_whole.set()

    async def left(self) -> None:
        """Return when the browser has left after it sent everything."""
        await self._is_whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
HANDSHAKE_S = 60.0
NORMAL, GOING_AWAY, NO_CODE = 1000, 1001, 1005
# Codes that an app may close with; the others mean something on the way that is over.
FIRST_CODE, LAST_CODE = 1000, 4999
NEVER_SENT = frozenset((1004, 1005, 1006, 1015))


class SocketExchange:
    """``receive`` and ``send`` are those of the browser's socket, whose handshake is not answered yet."""

    def __init__(self, channel: Channel, receive: Any, send: Any) -> None:
        self._channel, self._receive, self._send = channel, receive, send
        self._parts: list[bytes] = []
        self._is_text = False

    async def run(self, *, port: int, path: str, headers: Headers, subprotocols: list[str]) -> None:
        """Serve both ends until one closes. Raises NotAnswered before the browser is answered, TunnelClosed."""
        upstream = ClientProtocol(
            WebSocketURI(False, LOOPBACK, port, path.partition("?")[0], path.partition("?")[2]),
            subprotocols=[Subprotocol(one) for one in subprotocols] or None,
            max_size=MAX_MESSAGE_BYTES,
        )
        first = await self._shake_hands(upstream, headers)
        await self._send({"type": "websocket.accept", "subprotocol": upstream.subprotocol})
        for frame in first:
            await self._pass_on(frame)
        towards = asyncio.create_task(self._towards_app(upstream))
        back = asyncio.create_task(self._towards_browser(upstream))
        try:
            done, _ = await asyncio.wait({towards, back}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            towards.cancel()
            back.cancel()
            await asyncio.gather(towards, back, return_exceptions=True)

    async def _shake_hands(self, upstream: ClientProtocol, headers: Headers) -> list[Frame]:
        """Return the frames that came with the app's answer."""
        request = upstream.connect()
        try:
            for name, value in headers:
                if name not in (b"host", b"connection", b"upgrade"):
                    request.headers[name.decode("latin1")] = value.decode("latin1")
            upstream.send_request(request)
        except (WebSocketException, ValueError) as error:
            raise NotAnswered(f"The handshake cannot be passed on: {error}.") from error
        await self._flush(upstream)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                while not (events := upstream.events_received()):
                    if upstream.handshake_exc is not None or not (data := await self._channel.read()):
                        raise NotAnswered("It takes no WebSocket there.")
                    upstream.receive_data(data)
        except TimeoutError as error:
            raise NotAnswered("It does not answer the WebSocket.") from error
        if upstream.handshake_exc is not None:
            raise NotAnswered("It takes no WebSocket there.")
        return [event for event in events if isinstance(event, Frame)]

    async def _flush(self, upstream: ClientProtocol) -> None:
        for data in upstream.data_to_send():
            if data:
                await self._channel.write(data)

    async def _towards_app(self, upstream: ClientProtocol) -> None:
        while True:
            message = await self._receive()
            try:
                if message["type"] == "websocket.disconnect":
                    code = message.get("code") or NORMAL
                    upstream.send_close(code if code not in NEVER_SENT else GOING_AWAY)
                elif message.get("text") is not None:
                    upstream.send_text(message["text"].encode())
                else:
                    upstream.send_binary(message.get("bytes") or b"")
            except WebSocketException:  # the app is closing
                return
            await self._flush(upstream)
            if message["type"] == "websocket.disconnect":
                return

    async def _towards_browser(self, upstream: ClientProtocol) -> None:
        while data := await self._channel.read():
            upstream.receive_data(data)
            await self._flush(upstream)  # answers to pings, and to a close
            for event in upstream.events_received():
                if isinstance(event, Frame):
                    await self._pass_on(event)
            if upstream.close_expected():
                break
        code = upstream.close_code
        is_sendable = FIRST_CODE <= code <= LAST_CODE and code not in NEVER_SENT if code is not None else False
        with contextlib.suppress(OSError, RuntimeError):  # the browser has gone
            await self._send({"type": "websocket.close", "code": code if is_sendable else GOING_AWAY})

    async def _pass_on(self, frame: Frame) -> None:
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            return
        if frame.opcode != Opcode.CONT:
            self._parts, self._is_text = [], frame.opcode == Opcode.TEXT
        self._parts.append(bytes(frame.data))
        if frame.fin:
            whole = b"".join(self._parts)
            self._parts = []
            content = {"text": whole.decode("utf-8", "replace")} if self._is_text else {"bytes": whole}
            await self._send({"type": "websocket.send", **content})
