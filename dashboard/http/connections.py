"""uvicorn's HTTP connection with limits on a request's head, and on a client that does not read its answer: uvicorn
itself waits for both for ever."""

from asyncio import BaseTransport, TimerHandle

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_S = settings.SLOW_HEAD_S  # from the connection, or a request's first byte, to the end of its headers
HEAD_BYTES = 64 * 1024
READER_S = settings.SLOW_READER_S  # that a client reads nothing of an answer that does not fit into the buffers


class LimitedConnection(HttpToolsProtocol):
    """Closes where the head of a request does not come, or does not end. ``python -m uvicorn --http`` names it."""

    _head_timer: TimerHandle | None = None
    _head_bytes = 0
    _reader_timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        # Facts about the connection itself: each of its requests finds this very object in its scope.
        self.app_state = {**self.app_state, "connection": {}}
        self._await_head()

    def data_received(self, data: bytes) -> None:
        last: RequestResponseCycle | None = self.cycle
        if last is None or last.response_complete:
            self._await_head()  # the timer of an idle connection ends with any byte, a line break among them
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(READER_S, self._give_up)

    def resume_writing(self) -> None:
        self._stop_reader_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_reader_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer, self._head_bytes = None, 0

    def _stop_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
        self._reader_timer = None

    def _give_up(self) -> None:
        self._head_timer = self._reader_timer = None
        if not self.transport.is_closing():
            self.transport.abort()
