"""Starting from old runs: those of the project that are points of the space count as trials that are over."""

from __future__ import annotations

from runs.models import Run, Sweep, Trial
from runs.status import Status
from runs.sweeps.objective import NoValue, value_of
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.contract.statuses import TrialState
from trainyard.spec import SpecError, parse_spec
from trainyard.spec.document import value_at_path
from trainyard.spec.sweeps import SweepSpec, active, ordered, overlay
from trainyard.spec.sweeps.units import is_within

MOST_RUNS = 500  # that are looked at, the newest
MOST_TRIALS = 100
# In these a run may differ from the base: they change no objective, or are the reason for another try.
FREE = ("name", "tags", "project", "cluster", "priority", "restarts", "limits", "hangs", "preflight", "log_rules",
        "watch", "stragglers", "checkpoint")  # fmt: skip
WARM = "warm_start"


def warm_trials(sweep: Sweep) -> list[Trial]:
    """Return unsaved trials, one for each old run that fits, without numbers."""
    recipe = (sweep.base_spec.get("task") or {}).get("recipe")
    runs = Run.objects.filter(project=sweep.project, status=Status.SUCCEEDED, recipe=recipe).order_by("-ended_at")
    found = []
    for run in runs.only("id", "spec", "started_at", "ended_at")[:MOST_RUNS]:
        parameters = parameters_in(sweep.parsed, sweep.base_spec, run.spec)
        if parameters is None:
            continue
        try:
            values = [value_of([run.pk], objective) for objective in sweep.parsed.objectives]
        except NoValue:
            continue
        found.append(
            Trial(
                sweep=sweep, state=TrialState.COMPLETE, parameters=parameters, value=values[0],
                values=values if len(values) > 1 else [], by_hand=True, started_at=run.started_at,
                ended_at=run.ended_at, system_attributes={WARM: run.pk},
                reason=f"Run {run.pk}, which was there before the sweep.",
            )
        )  # fmt: skip
        if len(found) == MOST_TRIALS:
            break
    return found


def parameters_in(spec: SweepSpec, base: JsonObject, document: SpecDocument) -> JsonObject | None:
    """Return the parameters that make the base into this spec; None where there are none in the space."""
    if any(path.startswith(("task.arguments.", "task.environment.")) for path in spec.space):
        return None
    parameters: JsonObject = {}
    for path in ordered(spec.space):
        if active(spec.space[path], parameters):
            is_there, value = value_at_path(document, path)
            if not is_there:
                return None
            parameters[path] = value
    if not is_within(spec.space, parameters):
        return None
    try:
        same = parse_spec(overlay(base, parameters)).resolved()
    except SpecError:
        return None
    return parameters if _without_free(same) == _without_free(document) else None


def _without_free(document: SpecDocument) -> JsonObject:
    return {name: value for name, value in document.items() if name not in FREE}
