"""The messages that one socket has still to send: bounded, however slow its reader is."""

import asyncio
from collections import deque

from runs.records.deltas.encoded import EncodedDelta, Steps, both, refetch

MAX_TEXTS = 128  # six seconds and more of what one run may send
MAX_CHARS = 2_000_000  # four of the largest encoded deltas
MAX_HINTS = 256
AGAIN = '{"type":"again"}'  # what a page does after a reconnect: ask for everything that it shows


class Outbox:
    """The queue between a feed and one socket. If the reader is too slow, points and lines are dropped, and one
    ``refetch`` replaces them, which grows until the reader gets it."""

    def __init__(self) -> None:
        self.cursor = 0  # up to where the client has everything once the queue is sent
        self._sent_cursor = 0  # up to where it has everything that was taken out
        self._queue: deque[tuple[str, EncodedDelta | None, int]] = deque()  # text, its encoded, the cursor after it
        self._num_chars = 0
        self._hints: set[str] = set()
        self._missed: Steps | None = None
        self._is_late = False  # the ``refetch`` is not sent yet
        self._filled = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        return not self._queue and not self._is_late

    def begin(self, cursor: int) -> None:
        """The client has everything up to here."""
        self.cursor = self._sent_cursor = cursor

    def put(self, encoded: EncodedDelta) -> None:
        """Add what comes after ``cursor``."""
        self.cursor = encoded.cursor
        num_chars = sum(map(len, encoded.texts))
        is_full = len(self._queue) - len(self._hints) >= MAX_TEXTS or self._num_chars + num_chars > MAX_CHARS
        if self._is_late or (is_full and self._num_chars):
            self._drop(encoded)
        else:
            last = len(encoded.texts) - 1
            for number, text in enumerate(encoded.texts):
                self._queue.append((text, encoded, encoded.cursor if number == last else encoded.start))
            self._num_chars += num_chars
        self._filled.set()

    def hint(self, text: str) -> None:
        """Add a message without a cursor; while it waits, the same one is not added again."""
        if text in self._hints or AGAIN in self._hints:
            return
        if len(self._hints) >= MAX_HINTS:
            self._queue = deque(item for item in self._queue if item[1] is not None)
            self._hints.clear()
            text = AGAIN
        self._hints.add(text)
        self._queue.append((text, None, 0))
        self._filled.set()

    async def take(self) -> str:
        """Return the next message, as soon as there is one."""
        while self.is_empty:
            self._filled.clear()
            await self._filled.wait()
        if self._is_late:
            text = refetch(self._sent_cursor, self.cursor, self._missed)
            self._is_late, self._missed, self._sent_cursor = False, None, self.cursor
            return text
        text, encoded, cursor = self._queue.popleft()
        if encoded is None:
            self._hints.discard(text)
        else:
            self._num_chars -= len(text)
            self._sent_cursor = cursor
        return text

    def _drop(self, encoded: EncodedDelta) -> None:
        missed = self._missed if self._is_late else []
        for _, waiting, _ in self._queue:
            if waiting is not None:
                missed = both(missed, waiting.steps)
        self._missed, self._is_late = both(missed, encoded.steps), True
        self._queue = deque(item for item in self._queue if item[1] is None)
        self._num_chars = 0
