"""Advice after a run: ten runs of which nine waste time in a known way; what is advised, the share of the time that it
promises, and the share that it saves when the run is trained again with it."""

from __future__ import annotations

import os
import signal
import time
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from benchmarks import goals
from benchmarks.load.list_requests import open_site
from benchmarks.stack import FINAL, Stack, running
from benchmarks.table import Row, scaled
from trainyard.contract.base import JsonObject

REPEATS = 2  # of each run; the shorter counts
SMALL, MIDDLE = {"layers": 2, "width": 32, "heads": 2, "context": 32}, {"layers": 4, "width": 128, "heads": 4}
NO_FIELD = ""  # what is advised is no field of the form


@dataclass(frozen=True)
class Case:
    """A run with a fault, and the path of the field that one of the changes should name; None: no advice."""

    name: str
    path: str | None
    steps: int
    nodes: int = 1
    model: JsonObject | None = None
    batch: int = 32
    train: JsonObject | None = None
    checkpoint: JsonObject | None = None
    parallel: JsonObject | None = None
    kills: tuple[int, ...] = ()  # steps at which rank 0 is killed

    def spec(self) -> JsonObject:
        return {
            "name": self.name.replace(" ", "-"),
            "resources": {"nodes": self.nodes},
            "task": {"recipe": "language-model", "model": self.model or MIDDLE},
            "train": {"steps": scaled(self.steps, 60), "batch_size": self.batch, **(self.train or {})},
            "checkpoint": {"every_steps": 10_000, **(self.checkpoint or {})},
            "parallel": self.parallel or {},
        }


CASES = (
    Case("one node, nothing wrong", None, 40),
    Case("a checkpoint after each step", "checkpoint.every_steps", 150, model=SMALL, batch=8,
         checkpoint={"every_steps": 1}),
    Case("a checkpoint after each third step", "checkpoint.every_steps", 300, model=SMALL, batch=8,
         checkpoint={"every_steps": 3}),
    Case("a checkpoint after each step, two nodes", "checkpoint.every_steps", 100, 2, checkpoint={"every_steps": 1},
         batch=4),
    Case("a small model on two nodes", "resources.nodes", 600, 2, model=SMALL, batch=8),
    Case("small batches on two nodes", "train.batch_size", 200, 2, batch=2),
    Case("a small model in two tensor parts", "train.batch_size", 300, 2, model=SMALL, batch=8,
         parallel={"tensor": 2}),
    Case("a small model in two shards", "train.batch_size", 300, 2, model=SMALL, batch=8, parallel={"shard": 2}),
    Case("activations computed twice", "train.activation_checkpointing", 40,
         train={"activation_checkpointing": "full"}),
    Case("killed long after its only checkpoint", "checkpoint.every_steps", 200, batch=8,
         checkpoint={"every_steps": 100}, kills=(95, 195)),
)  # fmt: skip


def rows() -> list[Row]:
    found, num_right = [], 0
    with running() as stack:
        os.environ["TRAINYARD_HOME"] = str(stack.home)
        open_site()
        for case in CASES:
            row, is_right = tried(stack, case)
            found.append(row)
            num_right += is_right
            print(f"{row.what}: {row.ours} against {row.theirs}; {row.note}", flush=True)
    found.append(
        Row("advice right on runs with known faults", num_right, f"of {len(CASES)}", None, "", is_less_better=False,
            goal=goals.ADVICE, note="the fault is named, and the first change saves at least half of what was said")
    )  # fmt: skip
    return found


def tried(stack: Stack, case: Case) -> tuple[Row, bool]:
    """Train the case, do what it is advised, and train it again."""
    runs = [trained(stack, case, case.spec()) for _ in range(REPEATS)]
    before, run = min((seconds_of(stack, run), run) for run in runs)
    advice = advice_of(run)
    what = f"advice: {case.name}"
    if not advice:
        note = f"no advice; {before:.1f} s"
        return Row(what, None, "%", None, "promised", is_less_better=False, note=note), case.path is None
    sentence, promised, changes = advice[0]
    if not changes:
        row = Row(what, None, "%", promised, "promised", is_less_better=False, note=sentence)
        return row, case.path == NO_FIELD
    spec = changed(case.spec(), changes)
    after = min(seconds_of(stack, trained(stack, case, spec)) for _ in range(REPEATS))
    saved = 100 * (1 - after / before)
    note = f"{sentence}: {before:.1f} s, then {after:.1f} s"
    is_right = any(case.path in fields for _, _, fields in advice) and saved >= promised / 2
    return Row(what, saved, "%", promised, "promised", is_less_better=False, note=note), is_right


def trained(stack: Stack, case: Case, spec: JsonObject) -> str:
    run = stack.submit(spec)
    for number, step in enumerate(case.kills, start=1):
        kill(stack, run, number, step)
    stack.wait(run, 300)
    return run


def kill(stack: Stack, run: str, attempt: int, step: int) -> None:
    """SIGKILL rank 0 of that attempt once it has come as far as the step."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        document = stack.get(f"/runs/{run}")
        if document["status"] in FINAL:
            raise SystemExit(f"{run} was over before step {step}")
        if document["attempt"] == attempt and (document["step"] or 0) >= step:
            break
        time.sleep(0.02)
    placements = stack.get(f"/runs/{run}/attempts")["items"][-1]["placements"]
    os.kill(next(int(one["pid"]) for place in placements for one in place["ranks"] if one["rank"] == 0), signal.SIGKILL)


def seconds_of(stack: Stack, run: str) -> float:
    """The time in which it trained: without its start and without waiting for a restart."""
    spent: JsonObject = stack.get(f"/runs/{run}")["time"]
    return sum(float(spent.get(part) or 0.0) for part in ("productive_s", "checkpoint_s", "recomputed_s"))


def advice_of(run: str) -> list[tuple[str, float, JsonObject]]:
    """Return what the run's page advises: the sentence, the percentage that it promises, and the fields by path."""
    from django.utils import timezone

    from dashboard.pages.run.plan import advice_tab
    from runs.models import Run

    found = advice_tab(Run.objects.get(pk=run), timezone.now())
    return [(f"{one.measured} {one.change}", 100 * one.gain, one.changes) for one, _ in found]


def changed(spec: JsonObject, changes: JsonObject) -> JsonObject:
    found: dict[str, Any] = deepcopy(spec)
    for path, value in changes.items():
        *sections, field = path.split(".")
        part = found
        for section in sections:
            part = part.setdefault(section, {})
        part[field] = value
    return found
