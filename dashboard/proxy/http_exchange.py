"""One request of a browser and the app's answer, as HTTP/1.1 over a connection of a tunnel."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import h11

from dashboard.http.asgi import Receive, Send
from dashboard.proxy.headers import Headers, towards_browser
from dashboard.proxy.tunnel import Channel

MAX_BODY_BYTES = 512 * 1024 * 1024
HEAD_BYTES = 64 * 1024
ANSWER_S = 300.0  # until the app begins to answer, after the whole request has come
BODY_S = 60.0  # until the next part of a request's body


class NotAnswered(Exception):
    """The app's answer did not come or is no HTTP."""


class TooLarge(Exception):
    """The request's body is larger than what passes."""


class ClientGone(Exception):
    """The browser has left, or sends nothing more."""


class Outgoing(NamedTuple):
    """A request as the app gets it."""

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
    """Body that the browser sends after the head."""

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
