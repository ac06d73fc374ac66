"""`make demo`: the hello-gpt run, launched on both nodes as soon as they are there."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from dashboard.home import EXAMPLES
from dashboard.up import database
from dashboard.up.checks import CannotStart
from trainyard.contract.base import JsonObject

if TYPE_CHECKING:
    from dashboard.up.processes import Processes

EXAMPLE = EXAMPLES / "hello-gpt.yaml"


async def launch(processes: Processes, started_s: float) -> str:
    """Submit the example, print where to watch it, and return the run's id."""
    run_id = await processes.call(_submit, processes.owner, len(processes.names))
    link = await processes.call(database.sign_in_url, processes.url, processes.owner, f"/runs/{run_id}/")
    say = processes.console.say
    say()
    say(f"  Set-up took   {os.environ.get('TRAINYARD_SETUP_SECONDS', '0.0')} s")
    say(f"  Start took    {started_s:.1f} s")
    say(f"  Run           {run_id} (hello-gpt) on {' and '.join(processes.names)}")
    say(f"  Watch it live {link}")
    say()
    return run_id


async def wait(processes: Processes, run_id: str) -> int:
    """Print each new status, then the summary. Returns 0 only for a run that succeeded."""
    seen = ""
    while True:
        status, sentence, is_final, is_success = await processes.call(_progress, run_id)
        if sentence != seen:
            seen = sentence
            processes.console.say(f"  {status}: {seen}")
        if is_final:
            break
        await asyncio.sleep(0.5)
    for line in await processes.call(_summary, run_id):
        processes.console.say(line)
    return 0 if is_success else 1


def document_for(num_nodes: int) -> JsonObject:
    """Return the example's spec, on no more nodes than there are."""
    import yaml

    document: JsonObject = yaml.safe_load(EXAMPLE.read_text())
    document["resources"]["nodes"] = min(num_nodes, document["resources"]["nodes"])
    return document


def _submit(owner: Any, num_nodes: int) -> str:
    from runs.actions import Refused, submit_run
    from trainyard.spec import SpecError

    try:
        return submit_run(actor=owner, document=document_for(num_nodes)).pk
    except (Refused, SpecError) as error:
        raise CannotStart(f"The example was refused: {error}") from error


def _progress(run_id: str) -> tuple[str, str, bool, bool]:
    from runs.models import Run
    from runs.values.status import Status

    run = Run.objects.get(pk=run_id)
    return run.status, run.reason_sentence, run.is_final, run.status == Status.SUCCEEDED


def _summary(run_id: str) -> list[str]:
    from runs.models import Placement, Run
    from runs.records.points.read import curves

    run = Run.objects.get(pk=run_id)
    nodes = Placement.objects.filter(attempt__run=run).values_list("node__name", flat=True).distinct()
    lines = ["", f"  Run           {run.pk} ({run.name})", f"  Status        {run.status}"]
    lines.append(f"  Nodes         {' and '.join(sorted(nodes))}")
    if run.started_at and run.ended_at:
        lines.append(f"  Trained for   {(run.ended_at - run.started_at).total_seconds():.1f} s")
    for curve in curves({run_id: (None, None)}, ["val/loss"])[1]:
        values = curve.columns["value" if curve.kind == "raw" else "last"]
        if values.size:
            lines.append(f"  val/loss {float(values[0]):.4f} -> {float(values[-1]):.4f}")
    return [*lines, ""]
