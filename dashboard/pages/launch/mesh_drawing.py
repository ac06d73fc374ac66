"""The mesh of a run as a drawing: nodes as boxes, ranks as squares, and where each rank stands on the axes in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trainyard.spec import RecipeSpec, Spec
from trainyard.spec.strategies import AXES, of_axis, used
from trainyard.spec.strategies.mesh import Mesh

MAX_NODES, MAX_RANKS, MAX_ON_A_NODE = 24, 256, 64  # as many as are drawn; the rest is counted
MANY = 32  # ranks, above which their squares are small
NUM_COLOURS = 10
NOUNS = {axis.name: axis.noun for axis in AXES}


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
    num_nodes, each = spec.resources.least_nodes, spec.resources.processes_per_node
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
    sentence = of_axis(axis).sentence(spec, degree)
    if axis == "data":  # which is said by the strategy that changes how copies agree, where there is one
        sentence = "".join(way.clause(spec, degree) for way in used(spec, spec.mesh())) or sentence
    return Axis(axis, degree, f"{axis[0]}0 to {axis[0]}{degree - 1}", sentence)
