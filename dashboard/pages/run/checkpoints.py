"""The Checkpoints tab: what a run can be gone on from, who took it and who went on from it."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.db.models import Sum
from django.http import HttpRequest
from django.urls import reverse

from dashboard.pages.run.views import tab
from runs.models import Run
from runs.presenting.checkpoints import documents, memory_sentence
from runs.records.checkpoints.read import OFF
from runs.records.metrics.models import Checkpoint, CheckpointUse
from runs.rights.access import Someone, visible_runs

NUM_SHOWN = 100
COLOURS = {"valid": "green", "invalid": "red", "deleted": "grey", "late": "amber", "missing": "amber"}
LATE = "a newer attempt had begun when it was saved"


@tab
def checkpoints(request: HttpRequest, run: Run) -> dict[str, object]:
    rows = Checkpoint.objects.filter(run_id=run.pk)
    kept = list(_kept(request.user, run, list(rows.order_by("-pk")[:NUM_SHOWN])))
    num_bytes = rows.sound().aggregate(total=Sum("bytes"))["total"] or 0
    missing = [one["doc"] for one in kept if one["doc"]["state"] == "missing"]
    return {
        "kept": kept,
        "num_sound": rows.sound().count() - len(missing),
        "num_all": rows.count(),
        "num_shown": NUM_SHOWN,
        "sound_bytes": num_bytes - sum(one["bytes"] or 0 for one in missing),
        "stall_s": rows.aggregate(total=Sum("stall_s"))["total"],
        "trouble_words": _trouble(run),
        "memory_words": memory_sentence(run),
        "is_script": run.steps is None,
        **_words(run),
    }


def _kept(user: Someone, run: Run, rows: list[Checkpoint]) -> Iterator[dict[str, Any]]:
    found = documents(user, run, rows)
    others = {use["run"] for doc in found for use in doc["restored_by"]} - {run.pk}
    names = dict(visible_runs(user).filter(pk__in=others).values_list("pk", "name"))
    newest: set[int] = set()  # RUN@STEP means the newest attempt's
    for doc in found:
        step = doc["step"]
        may_launch = doc["valid"] and step not in newest and run.steps is not None
        newest |= {step} if doc["valid"] else set()
        launch_url = f"{reverse('launch')}?{urlencode({'from': f'checkpoint:{run.pk}@{step}'})}" if may_launch else ""
        yield {
            "doc": doc,
            "colour": COLOURS[doc["state"]],
            "why": doc["why"] or (LATE if doc["state"] == "late" else ""),
            "layout": ", ".join(f"{axis} {number}" for axis, number in doc["degrees"].items() if number > 1),
            "uses": [{**use, "name": names.get(use["run"], "")} for use in doc["restored_by"]],  # of another run
            "launch_url": launch_url,
        }


def _words(run: Run) -> dict[str, object]:
    """Return the words of an empty tab."""
    every = (run.spec.get("checkpoint") or {}).get("every_steps")
    when = f"One is taken every {every:,} steps, and at the end" if every else "One is taken every so many steps"
    goes_on = run.is_live or not run.is_final
    end = "a restart goes on from the newest." if goes_on else "this run ended before the first."
    return {
        "every_steps": every,
        "empty_sentence": f"No checkpoints{' yet' if run.is_live else ''}. {when}; {end}",
        "list_command": f"trainyard checkpoints {run.pk}",
        "again_url": f"{reverse('launch')}?{urlencode({'from': f'run:{run.pk}'})}",
        "again_command": f"trainyard clone {run.pk} --set checkpoint.every_steps=100",
    }


def _trouble(run: Run) -> str:
    """Return why the newest attempt keeps none, or could not keep the last; empty where it saved one since."""
    use = CheckpointUse.objects.filter(run_id=run.pk, attempt=run.fence, state=OFF, memory="").order_by("-pk").first()
    if use is None or Checkpoint.objects.filter(run_id=run.pk, fence=run.fence, at__gt=use.at).exists():
        return ""
    what = "No checkpoints are kept" if use.step is None else f"The checkpoint of step {use.step:,} could not be kept"
    return f"{what}: {use.why.rstrip('.') or 'the ranks do not say why'}."
