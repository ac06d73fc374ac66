"""What the launch page says of a spec before it is launched: its shape, when it could start, and the same as text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import yaml

from runs.access import Someone, visible_clusters
from runs.models import Cluster
from runs.queue import forecast
from runs.scheduling import Placed
from trainyard.spec import Problem, RecipeSpec, Spec, SpecError, check_fits, parse_spec

MAX_NODES, MAX_RANKS = 24, 64  # as many as are drawn; the rest is counted
SIDE, GAP, PER_ROW = 20, 4, 8


class Rank(NamedTuple):
    number: int
    x: int
    y: int
    words: str


class Box(NamedTuple):
    """One node of the drawing."""

    name: str
    ranks: list[Rank]
    num_hidden: int
    width: int
    height: int


class Mesh(NamedTuple):
    boxes: list[Box]
    num_nodes: int
    num_ranks: int
    num_hidden: int
    axes: list[tuple[str, int, str]]  # name, degree, what it means


class Plan(NamedTuple):
    problems: list[Problem]
    mesh: Mesh | None
    sentence: str
    tone: str  # green: starts at once; grey: waits; red: never, or not valid
    yaml: str
    command: str
    curl: str


def plan(user: Someone, document: dict[str, Any], url: str, now: datetime) -> Plan:
    """``url`` is how this site is reached from outside, for the curl command."""
    problems: list[Problem] = []
    mesh, sentence, tone = None, "The drawing and the forecast come once the spec is valid.", "red"
    try:
        spec = parse_spec(document)
    except SpecError as error:
        problems = error.errors
        sentence = f"{len(problems)} {'thing is' if len(problems) == 1 else 'things are'} wrong with this spec."
    else:
        document = spec.resolved()
        problems, names, sentence, tone = _prospects(user, spec, now)
        mesh = draw(spec, names)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return Plan(problems, mesh, sentence, tone, text, as_command(text), as_curl(document, url))


def _prospects(user: Someone, spec: Spec, now: datetime) -> tuple[list[Problem], Sequence[str], str, str]:
    cluster: Cluster | None = visible_clusters(user).filter(name=spec.cluster).first()
    if cluster is None:
        problem = Problem("cluster", f"there is no cluster {spec.cluster!r} that you can see")
        return [problem], (), f"There is no cluster {spec.cluster}.", "red"
    nodes = {node.pk: node for node in cluster.nodes.filter(removed_at=None)}
    facts = [{"name": one.name, "slots": one.slots, "accelerator": one.accelerator} for one in nodes.values()]
    problems = check_fits(spec, facts)
    if problems:
        return problems, (), f"It can never start on {cluster.name}: {problems[0].message}.", "red"
    answer = forecast(cluster, spec.resolved(), now)
    if not isinstance(answer, Placed):
        return [], (), answer.sentence, "grey"
    names = [nodes[part.node].name for part in answer.parts if part.node in nodes]
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    listed = shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
    return [], names, f"It would start at once, on {listed}.", "green"


def draw(spec: Spec, names: Sequence[str] = ()) -> Mesh:
    """Nodes as boxes, ranks as squares. ``names`` are of the nodes where it would start."""
    num_nodes, each = spec.resources.nodes, spec.resources.processes_per_node
    boxes = []
    for node in range(min(num_nodes, MAX_NODES)):
        shown = min(each, MAX_RANKS)
        ranks = [_rank(node * each + at, at) for at in range(shown)]
        columns, lines = min(shown, PER_ROW), -(-shown // PER_ROW)
        boxes.append(
            Box(
                name=names[node] if node < len(names) else f"node {node + 1}",
                ranks=ranks,
                num_hidden=each - shown,
                width=columns * (SIDE + GAP) - GAP,
                height=lines * (SIDE + GAP) - GAP,
            )
        )
    return Mesh(boxes, num_nodes, spec.world_size(), num_nodes - len(boxes), _axes(spec))


def _rank(number: int, at: int) -> Rank:
    return Rank(number, at % PER_ROW * (SIDE + GAP), at // PER_ROW * (SIDE + GAP), f"rank {number}")


def _axes(spec: Spec) -> list[tuple[str, int, str]]:
    """The degrees of the device mesh that are more than 1, outermost first."""
    if not isinstance(spec, RecipeSpec):
        return []
    parallel = spec.parallel
    inner = parallel.shard * parallel.tensor * parallel.pipeline.stages
    copies = spec.world_size() // inner
    axes = [
        ("data", copies, "copies of the model, each with its share of the batch"),
        ("pipeline", parallel.pipeline.stages, "stages of layers"),
        ("shard", parallel.shard, "ranks that share one copy's weights"),
        ("tensor", parallel.tensor, "ranks that split each layer"),
    ]
    return [axis for axis in axes if axis[1] > 1]


def as_command(text: str) -> str:
    return f"trainyard submit - <<'END_OF_SPEC'\n{text}END_OF_SPEC"


def as_curl(document: dict[str, Any], url: str) -> str:
    body = shlex.quote(json.dumps(document, ensure_ascii=False))
    return (
        f'curl -X POST {shlex.quote(url + "/api/v1/runs")} -H "Authorization: Bearer $TRAINYARD_TOKEN"'
        f" -H 'Content-Type: application/json' -d {body}"
    )
