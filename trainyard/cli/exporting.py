"""The command ``export tensorboard``: runs as folders of event files."""

import argparse
import re
from collections import Counter
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from trainyard.cli.metrics import csv_rows, labels_of
from trainyard.cli.screen import Screen
from trainyard.contract.answers.runs import RunDocument
from trainyard.doors.tensorboard import exporting as events
from trainyard.rest import answers
from trainyard.rest.client import Client

Labels = dict[str, str]


def export_tensorboard(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    found = []
    for run_id in arguments.ids:
        run = client.run_document(run_id)
        with ExitStack() as files:
            export = Export(client, run, Path(arguments.folder) / _place(f"{run['name']}-{run['id'][:8]}"), files)
            export.write()
        found.append(export)
    if arguments.json:
        screen.json({"items": [{"run": one.run["id"], "folder": str(one.folder), **one.counts} for one in found]})
        return 0
    lines = [(one.run["id"], str(one.folder), *(f"{one.counts[key]:,}" for key in KEPT)) for one in found]
    screen.table(("id", "folder", *KEPT), lines)
    for one in found:
        for why in one.counts.keys() - set(KEPT):
            screen.say(f"{one.run['name']}: not written, {one.counts[why]:,} x: {why}")
    return 0


KEPT = ("points", "media")


class Export:
    """One run on its way into a folder: series with labels lie in folders below it."""

    def __init__(self, client: Client, run: RunDocument, folder: Path, files: ExitStack) -> None:
        self.run, self.folder = run, folder
        self.counts: Counter[str] = Counter(dict.fromkeys(KEPT, 0))
        self._client, self._files = client, files
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
        for one in self._client.media(self.run["id"]):
            labels = dict(one["labels"])
            index = labels.pop("index", None)
            tag, file = one["name"] if index is None else f"{one['name']}/{index}", self._file(labels)
            listed = self._client.media_steps(self.run["id"], one["name"], one["labels"])
            if listed["thinned"]:
                self.counts[f"{one['name']} has more than 2,000 steps, of which an even choice is written"] += 1
            for item in listed["items"]:
                if value := self._medium(item):
                    file.add(tag, item["step"], item["time"], value)

    def _medium(self, item: answers.MediaStep) -> bytes:
        run, meta = self.run["id"], item["meta"]
        if item["kind"] not in ("image", "text", "histogram"):
            self.counts[f"media of the kind {item['kind']}"] += 1
            return b""
        self.counts["media"] += 1
        if item["kind"] == "image":
            return events.image(meta["width"], meta["height"], self._client.medium_file(run, item["id"]))
        medium = self._client.medium(run, item["id"])
        if (found := medium.get("histogram")) is not None:
            return events.histogram(found["edges"], found["counts"])
        return events.text(medium.get("text") or "")

    def _file(self, labels: Labels) -> events.EventFile:
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
