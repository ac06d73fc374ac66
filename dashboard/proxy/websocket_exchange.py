"""One WebSocket of a browser and the app's end of it, over a connection of a tunnel."""

import asyncio
import contextlib
from typing import Any

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from dashboard.proxy.headers import LOOPBACK, Headers
from dashboard.proxy.http_exchange import NotAnswered
from dashboard.proxy.tunnel import Channel

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
