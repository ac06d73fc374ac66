"""TensorBoard's writers, PyTorch's and tensorboardX: each record that they write into an event file.

What is logged is what the file holds, since the same bytes are read: a number has the 32 bits that it has there. A
thread of ours reads them four times a second, so that a call costs the script what it did before.
"""

import atexit
import functools
import os
import threading
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from trainyard.doors.gathering import Gathering, beside
from trainyard.doors.tensorboard.events import Translator
from trainyard.formats.media import Media
from trainyard.sdk.buffers import Groups, Labels, Rows
from trainyard.shadow.mirror import after, shadow, trouble

WHO = "TensorBoard"
PERIOD_S = 0.25
LAST_S = 0.1


def follow(module: Any) -> None:
    """Follow the class that both kinds of writers write their files with."""
    if "TRAINYARD_SPOOL" in os.environ and not shadow.only:
        return  # the node follows the files themselves
    writer = module.RecordWriter
    original = writer.write

    @functools.wraps(original)
    def write(self: Any, data: bytes) -> None:
        if not shadow.only:
            original(self, data)
        try:
            self._trainyard.append(data)
            if not follower.wake.is_set():
                follower.wake.set()
        except Exception as error:  # whatever is wrong, the script goes on
            trouble("RecordWriter.write", error)

    writer.write = write
    after(writer, "__init__", begun)
    after(writer, "close", ended)


def begun(_: Any, writer: Any, target: Any) -> None:
    is_path = isinstance(target, str | os.PathLike)
    path = Path(os.fsdecode(target if is_path else target.filename))
    writer._trainyard = (feed := Feed(path.parent)).bodies
    follower.follow(writer, feed)
    if shadow.only and is_path:  # it has made the file already
        path.unlink(missing_ok=True)


def ended(_: Any, writer: Any) -> None:
    if (feed := follower.feeds.pop(id(writer), None)) is not None:
        feed.flush()
        shadow.end()


class Follower:
    """The feeds of all writers that are open, and the thread that reads them."""

    def __init__(self) -> None:
        self.feeds: dict[int, Feed] = {}  # by the writer
        self.wake = threading.Event()
        self._thread: threading.Thread | None = None
        os.register_at_fork(after_in_child=self.feeds.clear)  # the parent reads what it wrote
        atexit.register(self._leave)  # the SDK, which registered before, writes the end after it

    def follow(self, writer: Any, feed: "Feed") -> None:
        self.feeds[id(writer)] = feed
        if self._thread is None or not self._thread.is_alive():
            self.wake = threading.Event()
            self._thread = threading.Thread(target=self._serve, name="trainyard-shadow", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        for feed in list(self.feeds.values()):
            feed.flush()

    def _leave(self) -> None:
        if self.feeds:
            time.sleep(LAST_S)  # writers that the script leaves open have threads of their own, which are not done
        self.flush()

    def _serve(self) -> None:
        while True:
            self.wake.wait()
            time.sleep(PERIOD_S)
            self.wake.clear()
            self.flush()


follower = Follower()


class Feed(Gathering):
    """What one writer writes, on its way into the run."""

    _base: tuple[Any, Path] = (None, Path())  # a run, and the folder of its first writer

    def __init__(self, folder: Path) -> None:
        super().__init__()
        run = shadow.begin()
        if Feed._base[0] is not run:
            Feed._base = run, folder
        place = os.path.relpath(folder, Feed._base[1])
        self.bodies: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._translator = Translator(self, () if place == "." else (("folder", place),))
        self._rows: Groups = defaultdict(Rows)

    def flush(self) -> None:
        """Log what was written since."""
        try:
            with self._lock:
                self._translator.take([self.bodies.popleft() for _ in range(len(self.bodies))])
                rows, self._rows = self._rows, defaultdict(Rows)
                shadow.log_rows(WHO, rows)
        except Exception as error:  # whatever is wrong, the script goes on
            trouble("SummaryWriter", error)

    def rows(self, name: str, labels: Labels = ()) -> Rows:
        return self._rows[(name,), labels]

    def media(self, name: str, step: int, time: float, media: Media, labels: Labels = ()) -> None:
        shadow.log(WHO, {name: media}, step, dict(labels), time)

    def config(self, values: dict[str, Any], labels: Labels = ()) -> None:
        known = shadow.run().config
        known.update(beside(known, values, labels), allow_change=True)

    def refuse(self, name: str, why: str) -> None:
        shadow.warn(f"{name} {why}", f"shadow: TensorBoard's {name or 'file'}: {why}: not mirrored")
