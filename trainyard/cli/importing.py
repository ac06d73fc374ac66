"""The commands ``sync``, ``import`` and ``export``: local runs and other tools' records as runs of a server, and runs
as event files."""

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from trainyard.cli.commands import command, speaks_json
from trainyard.cli.following import csv_rows, labels_of
from trainyard.cli.screen import Screen, safe
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.statuses import LIVE
from trainyard.doors import mlflow, neptune, rows, wandb
from trainyard.doors.importing import ForeignRun, Imported, send
from trainyard.doors.tensorboard import exporting as events
from trainyard.doors.tensorboard import importing as tensorboard
from trainyard.formats.words import counted
from trainyard.rest import answers
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.sdk import sync
from trainyard.sdk.sync import Stuck

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
                with _bar(self._screen, run) as advance:
                    sent = sync.send(self._client, run, project=self._arguments.project, again=again, advance=advance)
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


@contextmanager
def _bar(screen: Screen, run: sync.LocalRun) -> Iterator[Callable[[int], None]]:
    """Yield what is called with the bytes that were sent: on a terminal a bar grows by them."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=screen.err, transient=True, disable=not screen.err.is_terminal) as progress:
        task = progress.add_task(safe(run.name), total=run.num_bytes)
        yield partial(progress.advance, task)


def _size(sent: sync.Sent) -> str:
    if not sent.num_bytes:
        return "nothing new"
    size = f"{sent.num_bytes / 1e6:.1f} MB" if sent.num_bytes >= 100_000 else f"{sent.num_bytes / 1e3:.1f} kB"
    return f"{counted(sent.num_frames, 'record')}, {size}"


Find = Callable[[argparse.Namespace], list[ForeignRun]]


def _of_folder(runs: Callable[[Path], list[ForeignRun]], example: str) -> Find:
    def find(arguments: argparse.Namespace) -> list[ForeignRun]:
        if not (folder := Path(arguments.source)).is_dir():
            raise NotADirectoryError(f"{folder} is no folder. It takes one with files of the tool, such as {example}.")
        return runs(folder)

    return find


def _of_file(arguments: argparse.Namespace) -> list[ForeignRun]:
    mapped = rows.Mapped(arguments.step, arguments.time, arguments.run_column)
    return rows.file_runs(Path(arguments.source), mapped, is_csv=arguments.import_command == "csv")


class Door(NamedTuple):
    """How runs of another tool are found, and the words about it."""

    runs: Find
    makes: str  # a run of each …
    takes: str  # the word for where they lie
    where: str
    nothing: str


BELOW = "it, and the folders below it, are looked through"
DOORS = {
    "tensorboard": Door(_of_folder(tensorboard.foreign_runs, "./runs"), "each folder with event files", "FOLDER", BELOW,
                        "no file below {} has tfevents in its name"),
    "wandb": Door(_of_folder(wandb.foreign_runs, "./wandb"), "each run of W&B's, online or offline", "FOLDER", BELOW,
                  "no file below {} is called run-ID.wandb"),
    "mlflow": Door(lambda arguments: mlflow.foreign_runs(arguments.source), "each run of MLflow's", "STORE",
                   "a folder mlruns, a file of SQLite, or the address of a server", "{} has no run"),
    "neptune": Door(_of_folder(neptune.foreign_runs, "./exports/data"), "each run of Neptune's exporter", "FOLDER",
                    BELOW, "no file below {} is called RUN_part_0.parquet"),
    "trackio": Door(_of_folder(rows.trackio_runs, "~/.cache/huggingface/trackio"), "each run of Trackio's", "FOLDER",
                    "where the databases of its projects lie", "no file PROJECT.db in {} has a run"),
    "csv": Door(_of_file, "a file of CSV, or each run in it", "FILE", "with the names of columns first",
                "{} has no row"),
    "jsonl": Door(_of_file, "a file of JSON lines, or each run in it", "FILE", "with an object in each line",
                  "{} has no row"),
}  # fmt: skip


def add_tools(tools: Any) -> None:
    for tool, door in DOORS.items():
        takes = command(tools, tool, import_runs, f"make a run of {door.makes}", speaks_json).add_argument
        takes("source", metavar=door.takes, help=door.where)
        takes("--project", help="whose runs they become (default: default)")
        if door.runs is _of_file:
            takes("--step", metavar="COLUMN", help="of the step (default: step, or the place of the row)")
            takes("--time", metavar="COLUMN", help="of the time (default: time or timestamp)")
            names = "of the run's name (default: all rows are one run)"
            takes("--run", dest="run_column", metavar="COLUMN", help=names)


def import_runs(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    door = DOORS[arguments.import_command]
    try:
        found = door.runs(arguments)
    except OSError as error:
        screen.complain(str(error))
        return BAD_COMMAND
    if not found:
        screen.complain(f"There is nothing to import: {door.nothing.format(arguments.source)}.")
        return FAILED
    came: list[Imported] = []
    has_failed = False
    for number, foreign in enumerate(found, 1):
        if screen.is_terminal:
            screen.say(f"{number} of {len(found)}: {foreign.name}")
        try:
            came.append(send(client, foreign, arguments.project))
        except (ApiError, Stuck) as error:
            if isinstance(error, ApiError) and error.status != CONFLICT:
                raise
            has_failed = True
            screen.complain(f"{foreign.name}: {error.detail if isinstance(error, ApiError) else error}")
    _report(came, arguments, screen)
    return FAILED if has_failed else 0


def _report(came: list[Imported], arguments: argparse.Namespace, screen: Screen) -> None:
    if arguments.json:
        told = (("run", "run"), ("points", "num_points"), ("media", "num_media"), ("refused", "refused"))
        screen.json({"items": [{name: getattr(one, field) for name, field in told} for one in came]})
        return
    numbers = [(one.run, f"{one.num_points:,}", f"{one.num_media:,}") for one in came]
    rows = [(run["id"], run["status"], run["name"], *figures) for run, *figures in numbers]
    screen.table(("id", "status", "name", "points", "media"), rows)
    for one in came:
        for why, count in sorted(one.refused.items()):
            screen.say(f"{one.run['name']}: not taken, {count:,} x: {why}")


def export_tensorboard(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    found = []
    for run_id in arguments.ids:
        run = client.run_document(run_id)
        with ExitStack() as files:
            export = Export(client, run, Path(arguments.folder) / _place(f"{run['name']}-{run['id'][:8]}"), files)
            export.write()
        found.append(export)
    if arguments.json:
        screen.json({"items": [{"run": one.run["id"], "folder": str(one.folder), **one.counts} for one in found]})
        return
    lines = [(one.run["id"], str(one.folder), *(f"{one.counts[key]:,}" for key in KEPT)) for one in found]
    screen.table(("id", "folder", *KEPT), lines)
    for one in found:
        for why in one.counts.keys() - set(KEPT):
            screen.say(f"{one.run['name']}: not written, {one.counts[why]:,} x: {why}")


KEPT = ("points", "media")


class Export:
    """One run on its way into a folder: series with labels lie in folders below it."""

    def __init__(self, client: Client, run: RunDocument, folder: Path, files: ExitStack) -> None:
        self.run, self.folder = run, folder
        self.counts: Counter[str] = Counter(dict.fromkeys(KEPT, 0))
        self._client, self._files = client, files
        self._media = f"runs/{quoted(run['id'])}/media"
        self._at = datetime.fromisoformat(run["created_at"]).timestamp()
        self._open: dict[Path, events.EventFile] = {}

    def write(self) -> None:
        """Raises ApiError, Unreachable, OSError."""
        top = self._file({})
        if config := self.run["config"]:
            top.add(events.STARTED, 0, self._at, events.hyperparameters(config))
            top.add(events.ENDED, 0, self._at, events.session_end())
        for row in csv_rows(self._client.series_csv(self.run["id"])):
            file, name = self._file(labels_of(row["labels"])), re.sub(r"^'(?=[=+@-])", "", row["name"])
            file.add(name, int(row["step"]), float(row["time"]), events.scalar(float(row["value"])))
            self.counts["points"] += 1
        for one in self._client.pages(self._media, answers.MediaName):
            labels = dict(one["labels"])
            index = labels.pop("index", None)
            tag, file = one["name"] if index is None else f"{one['name']}/{index}", self._file(labels)
            query = {"name": one["name"], "labels": json.dumps(one["labels"])}
            listed = self._client.call("GET", f"{self._media}/steps", answers.MediaSteps, params=query)
            if listed["thinned"]:
                self.counts[f"{one['name']} has more than 2,000 steps, of which an even choice is written"] += 1
            for item in listed["items"]:
                if value := self._medium(item):
                    file.add(tag, item["step"], item["time"], value)

    def _medium(self, item: answers.MediaStep) -> bytes:
        if item["kind"] not in ("image", "text", "histogram"):
            self.counts[f"media of the kind {item['kind']}"] += 1
            return b""
        self.counts["media"] += 1
        if item["kind"] == "image":
            data = self._client.whole(f"{self._media}/{item['id']}/file")
            return events.image(item["meta"]["width"], item["meta"]["height"], data)
        medium = self._client.call("GET", f"{self._media}/{item['id']}", answers.Medium)
        if (found := medium.get("histogram")) is not None:
            return events.histogram(found["edges"], found["counts"])
        return events.text(medium.get("text") or "")

    def _file(self, labels: dict[str, str]) -> events.EventFile:
        """Return the file of the series with these labels. ``folder`` is what an import made of a folder's place."""
        own = [f"{name}={value}" for name, value in sorted(labels.items()) if name != "folder"]
        parts = [*labels.get("folder", "").split("/"), ",".join(own)]
        folder = self.folder.joinpath(*(_place(part) for part in parts if part not in ("", ".", "..")))
        if folder not in self._open:
            self._open[folder] = self._files.enter_context(events.EventFile(folder, self._at))
        return self._open[folder]


def _place(name: str) -> str:
    """Return a name of a folder that leads nowhere else."""
    return re.sub(r"[^\w.=,@+ -]+", "-", name).strip(". ")[:120] or "run"
