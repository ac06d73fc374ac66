"""Refusals of a person's request to resize a run."""

from __future__ import annotations

from django.core.exceptions import ValidationError

from runs.models import Run
from runs.values.refused import Refused
from runs.values.status import Status
from trainyard.formats.words import listed

MAX_NAMED = 8


def refuse_resize(run: Run, nodes: int | None) -> None:
    """Raise Refused where the run cannot be resized, ValidationError for a number of nodes that it cannot have.
    ``nodes`` None: as many as its spec allows."""
    if run.is_local:
        sentence = "was logged outside of Trainyard, which cannot resize it."
        raise Refused("logged-elsewhere", f"Run {run.name} {sentence}")
    if run.is_final:
        raise Refused("already-ended", f"Run {run.name} has already ended: {run.status}.")
    if run.status == Status.STOPPING:
        raise Refused("stopping", f"Run {run.name} is being stopped or paused.")
    if not run.node_counts:
        fixed = run.spec["resources"]["nodes"]
        raise Refused(
            "not-elastic",
            f"Run {run.name} asks for just {fixed} node{'' if fixed == 1 else 's'}. Only a run whose "
            "resources.nodes is a range, such as {min: 1, max: 4}, is resized; continue this one as a new run instead.",
        )
    if nodes is not None and nodes not in run.node_counts:
        raise ValidationError({"nodes": _why_not(run, nodes)})


def _why_not(run: Run, nodes: int) -> str:
    counts: list[int] = run.node_counts or []
    shown = listed([str(number) for number in counts], at_most=MAX_NAMED)
    accepted = f"Run {run.name} trains on {shown} node{'' if counts == [1] else 's'}"
    if nodes < 1:
        return f"{accepted}, and {nodes} is no number of nodes."
    asked = run.spec["resources"]["nodes"]
    if nodes < asked["min"]:
        return f"{accepted}, and {nodes} is less than resources.nodes.min, which is {asked['min']}."
    if nodes > asked["max"]:
        return f"{accepted}, and {nodes} is more than resources.nodes.max, which is {asked['max']}."
    world = nodes * (run.slots_per_node or 1)
    batch = run.spec.get("train", {}).get("batch_size")
    if batch is not None and world > batch:
        return f"{accepted}: {nodes} nodes have {world} ranks, more than the {batch} samples of a batch."
    return f"{accepted}: its degrees or its batch do not divide among the {world} ranks of {nodes} nodes."
