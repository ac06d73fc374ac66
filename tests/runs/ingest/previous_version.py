"""Frames of every kind of record as the version before typed records wrote them, and the rows that it stored of them.

``previous_version.json`` was made once by that version and is never made anew: it stands for spools on other machines.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from runs.records.logs.read import read_logs
from runs.records.media.read import content, media_list
from runs.records.metrics.models import Checkpoint, CheckpointUse, DeadLetter, Fact, Media, Producer, Telemetry
from runs.records.points import read
from runs.records.points.charts.series import raw

FILE = Path(__file__).with_suffix(".json")
TIMES = ("id", "last_record_at", "record_minute", "compacted_cursor")
NEWER = ("memory", "key_version")  # columns that came later, where they hold nothing


def frames_of(run: str) -> bytes:
    return base64.b64decode(json.loads(FILE.read_text())["frames"][run])


def rows_of(run: str) -> dict[str, Any]:
    rows: dict[str, Any] = json.loads(FILE.read_text())["rows"][run]
    if run == "unsound":  # that version refused its text of the format html, which is one by now
        rows["Producer"][0]["num_dead_letters"] -= 1
        rows["Telemetry"][0]["troubles"]["refused_points"] -= 1
        rows["dead_letters"].remove(["e" * 32, 63, 117])
        rows["media"].append(["m", {}, "text", 1, 1.0, 0, {"chars": 1, "format": "html"}, {"text": "x"}])
        seen = {"labels": {}, "name": "m", "kind": "text", "count": 1, "first_step": 1, "last_step": 1}
        rows["media_list"].append(seen)
    return rows


def stored_rows(run: str) -> dict[str, Any]:
    """Return all that the store has of the run, as plain JSON."""
    tables = {
        model.__name__: [
            {name: value for name, value in row.items() if name not in TIMES and (name not in NEWER or value)}
            for row in model.objects.filter(run_id=run).order_by("pk").values()
        ]
        for model in (Checkpoint, CheckpointUse, Fact, Producer, Telemetry)
    }
    found = {
        **tables,
        "points": sorted(
            (
                [curve.name, curve.labels, *(column.tolist() for column in curve.columns.values())]
                for curve in raw(run, attempts="all")
            ),
            key=str,
        ),
        "summaries": read.summaries([run]),
        "lines": read_logs(run, limit=1000),
        "media": [
            [row.name, row.labels, row.kind, row.step, row.time, row.rank, row.meta, content(row)]
            for row in Media.objects.filter(run_id=run).order_by("pk")
        ],
        "media_list": media_list(run),
        "dead_letters": sorted(DeadLetter.objects.filter(run_id=run).values_list("producer", "sequence", "size")),
    }
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain
