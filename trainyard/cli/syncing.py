"""The command ``sync``: local runs to the server."""

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from trainyard.cli.screen import Screen, safe
from trainyard.contract.statuses import LIVE
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.sdk import sync

FAILED, BAD_COMMAND, NO_SERVER = 1, 2, 3
POLL_S = 2.0
CONFLICT = 409


def sync_folder(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    folder = Path(arguments.folder)
    if not folder.is_dir():
        screen.complain(f"{folder} is no folder. Outside of Trainyard, trainyard.init makes one: ./trainyard-spool.")
        return BAD_COMMAND
    found = sync.find(folder)
    if not found:
        screen.complain(f"There is nothing to send below {folder}: no local run has begun there.")
        return FAILED
    sender = SyncSender(client, screen, arguments)
    while True:
        try:
            sender.send(found)
        except Unreachable as error:
            screen.complain(f"{error}. Nothing is lost: the same command goes on where this one was.")
            return NO_SERVER
        if not arguments.follow or not sender.is_waiting:
            break
        time.sleep(POLL_S)
        found = sync.find(folder)
    sender.report()
    return FAILED if sender.has_refused else 0


class SyncSender:
    """Sends local runs and keeps what came of each."""

    def __init__(self, client: Client, screen: Screen, arguments: argparse.Namespace) -> None:
        self.has_refused = False
        self._client, self._screen, self._arguments = client, screen, arguments
        self._sent: dict[str, sync.Sent] = {}
        self._refused: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Return whether a run that was sent has no end yet."""
        return any(one.run["status"] in LIVE for one in self._sent.values())

    def send(self, found: Iterable[sync.LocalRun]) -> None:
        """Send what is new. Raises Unreachable, ApiError (but where one run alone is refused), OSError."""
        for run in found:
            before = self._sent.get(run.id)
            if run.id in self._refused or (before and before.run["status"] not in LIVE):
                continue
            again = self._arguments.again or before is not None
            try:
                with SyncBar(self._screen, run) as bar:
                    sent = sync.send(
                        self._client, run, project=self._arguments.project, again=again, advance=bar.advance
                    )
            except (sync.Gone, sync.Stuck) as error:
                self._refuse(run, f"{error}." + (" --again sends it anew." if isinstance(error, sync.Gone) else ""))
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                self._refuse(run, f"{run.name}: {error.detail}")
            else:
                self._keep(sent, before)

    def report(self) -> None:
        """Print the answer: the run of each folder."""
        if self._arguments.json:
            items = [
                {"local_id": one.local_id, "frames": one.num_frames, "bytes": one.num_bytes, "run": one.run}
                for one in self._sent.values()
            ]
            self._screen.json({"items": items})
        elif self._sent:
            rows = [(one.run["id"], one.run["status"], one.run["name"], _size(one)) for one in self._sent.values()]
            self._screen.table(("id", "status", "name", "sent"), rows)

    def _keep(self, sent: sync.Sent, before: sync.Sent | None) -> None:
        if sent.num_bytes and not self._screen.err.is_terminal:
            self._screen.say(f"{sent.run['name']}: {_size(sent)}")
        for sentence in sent.refused:
            self.has_refused = True
            self._screen.complain(f"{sent.run['name']}: {sentence}")
        if before is not None:
            frames, size = before.num_frames + sent.num_frames, before.num_bytes + sent.num_bytes
            sent = sent._replace(num_frames=frames, num_bytes=size)
        self._sent[sent.local_id] = sent
        if sent.run["status"] in LIVE and before is None:
            self._screen.say(f"{sent.run['name']}: {sent.run['reason']['sentence']}")

    def _refuse(self, run: sync.LocalRun, sentence: str) -> None:
        self.has_refused = True
        self._refused.add(run.id)
        self._screen.complain(sentence)


class SyncBar:
    """A bar while a run is sent, on a terminal."""

    def __init__(self, screen: Screen, run: sync.LocalRun) -> None:
        self._progress: Progress | None = None
        if screen.err.is_terminal:
            about = TextColumn("{task.description}")
            self._progress = Progress(
                about, BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=screen.err, transient=True
            )
            self._task = self._progress.add_task(safe(run.name), total=run.num_bytes)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()

    def advance(self, num_bytes: int) -> None:
        if self._progress is not None:
            self._progress.advance(self._task, num_bytes)


def _size(sent: sync.Sent) -> str:
    if not sent.num_bytes:
        return "nothing new"
    size = f"{sent.num_bytes / 1e6:.1f} MB" if sent.num_bytes >= 100_000 else f"{sent.num_bytes / 1e3:.1f} kB"
    return f"{sent.num_frames:,} record{'' if sent.num_frames == 1 else 's'}, {size}"
