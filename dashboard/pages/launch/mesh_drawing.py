"""The mesh of a run as a drawing: nodes as boxes, ranks as squares, and where each rank stands on the axes in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainyard.spec import RecipeSpec, Spec
from trainyard.spec.strategies.mesh import Mesh
from trainyard.spec.strategies.microbatches import choose_microbatches

MAX_NODES, MAX_RANKS, MAX_ON_A_NODE = 24, 256, 64  # as many as are drawn; the rest is counted
MANY = 32  # ranks, above which their squares are small
NUM_COLOURS = 10
NOUNS = {"pipeline": "stage", "data": "copy", "shard": "shard", "tensor": "slice"}


class Rank(NamedTuple):
    """``mark`` says the coordinate on the chosen axis (``d1``), and so does ``colour``: 1 to 10, or 0 for none."""

    number: int
    mark: str
    colour: int
    words: str


class Box(NamedTuple):
    """One node of the drawing."""

    name: str
    ranks: list[Rank]
    num_hidden: int


class Axis(NamedTuple):
    """An axis whose degree is above 1. ``marks`` are those of its first and last coordinate."""

    name: str
    degree: int
    marks: str
    sentence: str


class Drawing(NamedTuple):
    boxes: list[Box]
    num_nodes: int
    num_ranks: int
    num_hidden: int
    axes: list[Axis]
    chosen: str  # the name of the axis that colours the ranks
    density: str  # as a class of the drawing: small squares that show their mark alone, in rows of 4 or of 8


def draw(spec: Spec, names: Sequence[str] = (), chosen: str = "") -> Drawing:
    """``names`` are of the nodes where it would start; ``chosen`` is the axis to colour by, else the outermost."""
    num_nodes, each = spec.resources.nodes, spec.resources.processes_per_node
    mesh = spec.mesh() if isinstance(spec, RecipeSpec) else None
    used = mesh.used if mesh else {}
    if chosen not in used:
        chosen = next(iter(used), "")
    num_boxes = min(num_nodes, MAX_NODES)
    shown = min(each, MAX_ON_A_NODE, MAX_RANKS // num_boxes)
    boxes = []
    for node in range(num_boxes):
        name = names[node] if node < len(names) else f"node {node + 1}"
        ranks = [_rank(node * each + at, name, mesh, chosen) for at in range(shown)]
        boxes.append(Box(name, ranks, each - shown))
    axes = [_axis(spec, axis, degree) for axis, degree in used.items() if isinstance(spec, RecipeSpec)]
    density = "" if shown * num_boxes <= MANY or not chosen else "is-dense" if shown <= 16 else "is-dense is-wide"
    return Drawing(boxes, num_nodes, spec.world_size(), num_nodes - num_boxes, axes, chosen, density)


def coordinates_in_words(mesh: Mesh, rank: int) -> str:
    """Say where ``rank`` stands on the axes in use, such as ``stage 0, copy 1``; nothing where there is none."""
    place = mesh.coordinates_of(rank)
    return ", ".join(f"{NOUNS[axis]} {place[axis]}" for axis in mesh.used)


def _rank(number: int, node: str, mesh: Mesh | None, chosen: str) -> Rank:
    if mesh is None or not chosen:
        return Rank(number, "", 0, f"rank {number} on {node}")
    at = mesh.coordinates_of(number)[chosen]
    words = f"rank {number} on {node}: {coordinates_in_words(mesh, number)}"
    return Rank(number, f"{chosen[0]}{at}", at % NUM_COLOURS + 1, words)


def _axis(spec: RecipeSpec, axis: str, degree: int) -> Axis:
    sentence = {"pipeline": _pipeline, "data": _data, "shard": _shard, "tensor": _tensor}[axis](spec, degree)
    return Axis(axis, degree, f"{axis[0]}0 to {axis[0]}{degree - 1}", sentence)


def _pipeline(spec: RecipeSpec, degree: int) -> str:
    pipeline, copies = spec.parallel.pipeline, spec.mesh().num_batch_parts
    if pipeline.schedule == "layer-wise":
        return f"{degree} stages hold the layers one after the other; the batch is in one of them at a time."
    rows = spec.train.batch_size // (spec.train.accumulate * copies)
    number = choose_microbatches(pipeline.schedule, degree, pipeline.microbatches, rows)
    flow = f"{number} microbatches flow" if number > 1 else "one microbatch flows"
    return f"{degree} stages hold the layers one after the other; {flow} through them ({pipeline.schedule})."


def _data(spec: RecipeSpec, degree: int) -> str:
    own = spec.parallel.synchronization
    often = "every step" if own.every_steps == 1 else f"every {own.every_steps:,} steps"
    if own.kind == "local-sgd":
        return f"{degree:,} copies of the model train alone and average their weights {often}."
    if own.kind == "diloco":
        return f"{degree:,} copies of the model train alone; {often} one outer step takes the average of their changes."
    if own.kind == "parameter-server":
        return (
            f"{degree:,} copies of the model send their gradients to rank 0 and fetch its weights, "
            f"at most {own.max_staleness:,} steps apart."
        )
    sent = {"none": "", "powersgd": ", compressed by PowerSGD"}
    travel = sent.get(spec.parallel.compression, f", sent as {spec.parallel.compression}")
    return f"{degree:,} copies of the model share the batch and average their gradients in each step{travel}."


def _shard(spec: RecipeSpec, degree: int) -> str:
    is_dropped = spec.parallel.reshard_after_forward and spec.parallel.pipeline.stages == 1  # a pipeline keeps it
    until = "drop it again after use" if is_dropped else "keep it until the backward pass"
    return f"{degree:,} ranks share one copy's weights: they gather a block when it is needed and {until}."


def _tensor(spec: RecipeSpec, degree: int) -> str:
    return f"{degree:,} ranks split each layer, its sequence and its loss among them."
