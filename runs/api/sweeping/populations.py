"""``/sweeps/{id}/lineage`` and ``/sweeps/{id}/trials/{number}/replay``: the tree of a population, and a line of it."""

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest
from ninja import Field, Schema

from runs.api.auth import Resource, actor
from runs.api.schemas import RunOut, schema_of
from runs.presenting.runs import single_document
from runs.rights.access import Permission, get_sweep
from runs.rights.access.operations import operation, thing
from runs.sweeps.population_rows import lineage, replay_trial
from runs.sweeps.populations.lineage import Branch

router = Resource(tags=["sweeps"])


class ChangeOut(Schema):
    path: str
    before: Any = Field(None, description="the parent's value")
    after: Any = None


class BranchOut(schema_of(Branch)):  # type: ignore[misc]  # its fields are those that are read
    changed: list[ChangeOut] = Field(description="what it has another way than its parent")


class LineageOut(Schema):
    trials: list[BranchOut]


@router.get("/sweeps/{sweep_id}/lineage", response=LineageOut, summary="Descent of trials")
@operation(thing(Permission.SWEEPS_READ))
def show(request: HttpRequest, sweep_id: str) -> LineageOut:
    """Each trial has `parent`, `start` (the step behind which it began), `end`, `children`, and what it has another way
    than its parent. Without population based training every trial stands alone."""
    return LineageOut(trials=[_branch(one) for one in lineage(get_sweep(request, sweep_id))])


def _branch(one: Branch) -> BranchOut:
    changed = [ChangeOut(path=path, before=before, after=after) for path, (before, after) in one.changed.items()]
    return BranchOut(**asdict(one) | {"changed": changed})


@router.post(
    "/sweeps/{sweep_id}/trials/{number}/replay", response={201: RunOut}, summary="Train what led to a trial as one run"
)
@operation(thing(Permission.SWEEPS_LAUNCH))
def replay(request: HttpRequest, sweep_id: str, number: int) -> Any:
    """Its losses are those of the trials that went on from each other, bit for bit."""
    return single_document(replay_trial(actor=actor(request), sweep=get_sweep(request, sweep_id), number=number))
