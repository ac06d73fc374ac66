"""What the launch page says of a spec before it is launched: its shape, when it could start, and the same as text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import yaml

from dashboard.pages.launch_cost import Cost, cost
from dashboard.pages.mesh_drawing import Drawing, draw
from runs.access import Someone, visible_clusters, visible_projects
from runs.datasets import resolve
from runs.models import Cluster, Node
from runs.planning import likely_nodes
from runs.queue import forecast
from runs.scheduling import Placed
from trainyard.spec import Problem, Spec, SpecError, check_fits, parse_spec


class Plan(NamedTuple):
    problems: list[Problem]
    mesh: Drawing | None
    sentence: str
    tone: str  # green: starts at once; grey: waits; red: never, or not valid
    yaml: str
    command: str
    curl: str
    cost: Cost | None = None  # of a recipe that trains
    is_script: bool = False


def plan(user: Someone, document: dict[str, Any], url: str, now: datetime, coloured_by: str = "") -> Plan:
    """``url`` is how this site is reached from outside, for the curl command; ``coloured_by`` an axis of the mesh."""
    problems: list[Problem] = []
    mesh, found, sentence, tone = None, None, "The drawing and the forecast come once the spec is valid.", "red"
    try:
        typed = parse_spec(document)
        spec = _with_dataset(user, typed)
    except SpecError as error:
        problems = error.errors
        sentence = f"{len(problems)} {'thing is' if len(problems) == 1 else 'things are'} wrong with this spec."
    else:
        document = typed.resolved()
        problems, nodes, sentence, tone = _prospects(user, spec, now)
        mesh = draw(spec, [node.name for node in nodes] if tone == "green" else (), coloured_by)
        found = cost(user, spec, nodes)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    is_script = "script" in document["task"]
    return Plan(problems, mesh, sentence, tone, text, as_command(text), as_curl(document, url), found, is_script)


def _with_dataset(user: Someone, spec: Spec) -> Spec:
    """Fill in what the dataset says that the spec names, as submitting would. Raises SpecError."""
    project = visible_projects(user).filter(name=spec.project).first()
    if project is None:
        raise SpecError([Problem("project", f"There is no project {spec.project!r} that you can see.")])
    cluster = visible_clusters(user).filter(name=spec.cluster).first()
    return resolve(spec, project, cluster) if cluster else spec


def _prospects(user: Someone, spec: Spec, now: datetime) -> tuple[list[Problem], Sequence[Node], str, str]:
    """Return what is wrong, the nodes where it would start (or would, if they were idle), a sentence and its tone."""
    cluster: Cluster | None = visible_clusters(user).filter(name=spec.cluster).first()
    if cluster is None:
        problem = Problem("cluster", f"there is no cluster {spec.cluster!r} that you can see")
        return [problem], (), f"There is no cluster {spec.cluster}.", "red"
    nodes = {node.pk: node for node in cluster.nodes.filter(removed_at=None).select_related("cluster")}
    facts = [{"name": one.name, "slots": one.slots, "accelerator": one.accelerator} for one in nodes.values()]
    problems = check_fits(spec, facts)
    if problems:
        return problems, (), f"It can never start on {cluster.name}: {problems[0].message}.", "red"
    answer = forecast(cluster, spec.resolved(), now)
    if not isinstance(answer, Placed):
        return [], likely_nodes(spec, list(nodes.values())), answer.sentence, "grey"
    chosen = [nodes[part.node] for part in answer.parts if part.node in nodes]
    names = [node.name for node in chosen]
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    listed = shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
    return [], chosen, f"It would start at once, on {listed}.", "green"


def as_command(text: str) -> str:
    return f"trainyard submit - <<'END_OF_SPEC'\n{text}END_OF_SPEC"


def as_curl(document: dict[str, Any], url: str) -> str:
    body = shlex.quote(json.dumps(document, ensure_ascii=False))
    return (
        f'curl -X POST {shlex.quote(url + "/api/v1/runs")} -H "Authorization: Bearer $TRAINYARD_TOKEN"'
        f" -H 'Content-Type: application/json' -d {body}"
    )
