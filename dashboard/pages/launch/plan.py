"""Facts about a spec before it is launched, on the launch page: its shape, its cost, when it could start, and the same
as text."""

import json
import logging
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from statistics import median
from typing import NamedTuple

from django.conf import settings

from dashboard.pages.shared import estimate as estimate_view
from dashboard.pages.shared.estimate import EstimateView, Suggestion
from runs.actions.checking import Launchable, NeverFits, Packed, check_launch
from runs.actions.estimates import Start, shown_run, start_of
from runs.models import Node, Run
from runs.placing import planning
from runs.placing.fitting import Placed
from runs.placing.planning import likely_nodes
from runs.presenting.measured import measured_of
from runs.rights.access import Forbidden, NotFound, Permission, Someone, projects_with, require, visible_runs
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.formats.figures import seconds
from trainyard.formats.words import listed
from trainyard.spec import Problem, RecipeSpec, Spec, SpecError, is_own_code, parse_spec, range_sentence
from trainyard.spec.document import as_yaml, value_at_path
from trainyard.spec.strategies import AXES, of_axis, used
from trainyard.spec.strategies.mesh import Mesh

MAX_NODES, MAX_RANKS, MAX_ON_A_NODE = 24, 256, 64  # as many as are drawn; the rest is counted
logger = logging.getLogger(__name__)

MANY = 32  # ranks, above which their squares are small
NUM_COLOURS = 10
NOUNS = {axis.name: axis.noun for axis in AXES}
TONE_ICONS = {"green": "check", "grey": "status-queued", "red": "alert"}


class Plan(NamedTuple):
    problems: list[Problem]
    mesh: "Drawing | None"
    sentence: str
    tone: str  # green: starts at once; grey: waits; red: never, not valid, or more memory than there is
    yaml: str
    command: str
    curl: str
    cost: "Cost | None" = None  # of a recipe that trains
    is_script: bool = False
    overflow: str = ""  # about missing memory: such a run is launched after a confirmation
    start: str = ""  # when it could start, where the sentence is about something worse
    begin: Start | None = None

    @property
    def icon(self) -> str:
        return TONE_ICONS[self.tone]

    @property
    def listed(self) -> list[Problem]:
        """The problems that the sentence does not say."""
        return [problem for problem in self.problems if problem.message not in self.sentence]


def plan(
    user: Someone,
    document: JsonObject,
    now: datetime,
    *,
    coloured_by: str = "",
    packed: Packed | None = None,
    source: str = "",
) -> Plan:
    """``coloured_by`` is an axis of the mesh, ``packed`` the code that would be stored with the launch, ``source`` what
    the form was filled from."""
    problems: list[Problem] = []
    found: Cost | None = None
    nodes: Sequence[Node] = ()
    begin: Start | None = None
    try:
        launchable = check_launch(actor=user, document=document, wanted=Permission.PROJECTS_READ, packed=packed)
        if projects_with(user, Permission.RUNS_LAUNCH).exists():  # who has no project sees what a launch would do, too
            require(user, launchable.project, Permission.RUNS_LAUNCH)
    except NeverFits as error:
        problems, tone = error.errors, "red"
        sentence = f"It can never start on {error.cluster.name}: {problems[0].message}."
    except (SpecError, NotFound, Forbidden) as error:
        problems, tone = problems_in(error), "red"
        sentence = f"{len(problems)} {'thing is' if len(problems) == 1 else 'things are'} wrong with this spec."
    else:
        begin = start_of(user, launchable.spec, launchable.cluster, launchable.nodes, now)
        nodes, sentence, tone = _prospects(launchable, begin)
        found = cost(user, launchable.spec, nodes, source)
    spec: Spec | None = None
    with suppress(SpecError):  # then the document is shown as it was typed
        spec = parse_spec(document)
        document = spec.resolved()
    shown = spec.at(len(nodes)) if spec and nodes and spec.resources.is_elastic else spec
    mesh = draw(shown, [node.name for node in nodes] if tone == "green" else (), coloured_by) if shown else None
    if spec and tone != "red" and (words := range_sentence(spec)):
        sentence = f"{sentence} {words}"
    overflow, start = found.overflow if found else "", ""
    if overflow:
        sentence, start, tone = overflow, sentence, "red"
    text = as_yaml(document)
    command, body = f"trainyard submit - <<'END_OF_SPEC'\n{text}END_OF_SPEC", json.dumps(document, ensure_ascii=False)
    curl = (
        f'curl -X POST {shlex.quote(settings.PUBLIC_URL + "/api/v1/runs")} -H "Authorization: Bearer $TRAINYARD_TOKEN"'
        f" -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )
    is_script = is_own_code(document["task"])
    return Plan(problems, mesh, sentence, tone, text, command, curl, found, is_script, overflow, start, begin)


def problems_in(error: SpecError | NotFound | Forbidden) -> list[Problem]:
    return error.errors if isinstance(error, SpecError) else [Problem("project", str(error))]


def _prospects(found: Launchable, start: Start) -> tuple[Sequence[Node], str, str]:
    """Return the nodes where it would start (or would, if they were idle), a sentence and its tone."""
    answer = start.answer
    if not isinstance(answer, Placed):
        return likely_nodes(found.spec, found.nodes), answer.sentence, "grey"
    by_id = {node.pk: node for node in found.nodes}
    chosen = [by_id[part.node] for part in answer.parts if part.node in by_id]
    names = [node.name for node in chosen]
    return chosen, f"It would start at once, on {listed(names, at_most=None if len(names) <= 4 else 3)}.", "green"


# The mesh of a run as a drawing: nodes as boxes, ranks as squares, and where each rank stands on the axes in use.


class Rank(NamedTuple):
    """``mark`` says the coordinate on the chosen axis (``d1``), and so does ``colour``: 1 to 10, or 0 for none."""

    number: int
    mark: str
    colour: int
    words: str


class Box(NamedTuple):
    name: str
    ranks: list[Rank]
    num_hidden: int


class AxisRow(NamedTuple):
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
    axes: list[AxisRow]
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
        boxes.append(Box(name, [_rank(node * each + at, name, mesh, chosen) for at in range(shown)], each - shown))
    axes = [axis_row(spec, axis, degree) for axis, degree in used.items() if isinstance(spec, RecipeSpec)]
    density = "" if shown * num_boxes <= MANY or not chosen else "is-dense" if shown <= 16 else "is-dense is-wide"
    return Drawing(boxes, num_nodes, spec.world_size(), num_nodes - num_boxes, axes, chosen, density)


def _rank(number: int, node: str, mesh: Mesh | None, chosen: str) -> Rank:
    if mesh is None or not chosen:
        return Rank(number, "", 0, f"rank {number} on {node}")
    place = mesh.coordinates_of(number)
    where = ", ".join(f"{NOUNS[axis]} {place[axis]}" for axis in mesh.used)
    words = f"rank {number} on {node}: {where}"
    return Rank(number, f"{chosen[0]}{place[chosen]}", place[chosen] % NUM_COLOURS + 1, words)


def axis_row(spec: RecipeSpec, axis: str, degree: int) -> AxisRow:
    sentence = of_axis(axis).sentence(spec, degree)
    if axis == "data":  # which is said by the strategy that changes how copies agree, where there is one
        sentence = "".join(way.clause(spec, degree) for way in used(spec, spec.mesh())) or sentence
    return AxisRow(axis, degree, f"{axis[0]}0 to {axis[0]}{degree - 1}", sentence)


# Cost of a spec on the launch page: memory, time, and the plans that would cost less.

MAX_PLANNED_RANKS = 256  # up to which it is worked out while somebody types
NUM_LOOKED_AT, NUM_MEASURED = 60, 5  # runs, newest first, and those of the same shape whose steps count
SHAPE = (  # what a step takes longer or shorter by
    *("resources", "parallel", "task.model", "task.data", "train.batch_size", "train.accumulate", "train.optimizer"),
    *("train.precision", "train.activation_checkpointing", "train.compile"),
)


class MeasuredStep(NamedTuple):
    run: Run
    num_runs: int  # of the same shape, of which ``run`` is one
    step_s: float  # the middle one
    pace: float  # in the planner's estimates of the step

    @property
    def words(self) -> str:
        return seconds(self.step_s)


class Cost(NamedTuple):
    """``estimate`` is None where ``problem`` says why, ``best`` where the planner knows no plan. ``measure`` is the
    source that fills the form with a benchmark of as many nodes and processes; ``rates_run`` the one whose rates these
    are, which ended ``rates_at``: empty where the person does not see it, and both where nobody has measured.
    ``measured`` is how long a step took in runs of the same shape, where there are any."""

    estimate: EstimateView | None
    best: Suggestion | None
    problem: str
    rates_run: str
    rates_at: datetime | None
    measure: str
    measured: MeasuredStep | None = None

    @property
    def overflow(self) -> str:
        """The warning about missing memory; empty where there is enough, or it is unknown."""
        return estimate_view.overflow(self.estimate.memory) if self.estimate else ""


def cost(user: Someone, spec: Spec, nodes: Sequence[Node], source: str = "") -> Cost | None:
    """``nodes`` are those that it would be placed on, ``source`` is what the form was filled from. None where there are
    no nodes, and for what the planner knows nothing of: a script, and what trains nothing."""
    if not nodes or not isinstance(spec, RecipeSpec):
        return None
    cluster, wanted = nodes[0].cluster, spec.resolved()
    spec = spec.at(len(nodes)) if spec.resources.is_elastic else spec
    measure = f"measure:{cluster.name}@{len(nodes)}x{spec.resources.processes_per_node}"
    if spec.world_size() > MAX_PLANNED_RANKS:
        problem = f"More than {MAX_PLANNED_RANKS} ranks are not worked out here: `trainyard plan` does."
        return Cost(None, None, problem, "", None, measure)
    try:
        costs = planning.costs(spec, cluster, nodes, num_proposals=1)
        measured = _measured(user, wanted, source, nodes, costs.estimate.step_time.total)
        view = estimate_view.view(spec, costs.estimate, measured.step_s if measured else None)
        pace = measured.pace if measured else 1.0
        best = next((estimate_view.suggestion(spec, one, pace) for one in costs.proposals), None)
        return Cost(view, best, "", shown_run(user, costs.known), costs.known.at, measure, measured)
    except ValueError as error:
        problem = str(error)
    except Exception:  # the form works without
        logger.exception("no estimate could be made of %s", spec.name)
        problem = "The planner could not work this one out."
    return Cost(None, None, problem, "", None, measure)


def _measured(
    user: Someone, wanted: SpecDocument, source: str, nodes: Sequence[Node], predicted_s: float
) -> MeasuredStep | None:
    """Return how long a step took in the source and the newest runs of this shape, on as many nodes of these kinds."""
    shapes = {path: value_at_path(wanted, path) for path in SHAPE}
    ran = visible_runs(user).filter(cluster=nodes[0].cluster, recipe=wanted["task"]["recipe"])
    origin, steps = ran.filter(pk=source.partition(":")[2].partition("@")[0]), dict[Run, float]()
    for run in dict.fromkeys([*origin, *ran.filter(ended_at__isnull=False).order_by("-ended_at")[:NUM_LOOKED_AT]]):
        if len(steps) < NUM_MEASURED and all(value_at_path(run.spec, path) == shape for path, shape in shapes.items()):
            placed = Node.objects.filter(placements__attempt__run=run, placements__attempt__fence=run.fence)
            measured = measured_of(run) if _kinds(placed) == _kinds(nodes) else None
            if measured and (step_s := measured["step_time"]["total"]):
                steps[run] = step_s
    if not steps:
        return None
    step_s = median(steps.values())
    return MeasuredStep(next(iter(steps)), len(steps), step_s, step_s / predicted_s)


def _kinds(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    return sorted((one.accelerator, one.device) for one in planning.node_facts(list(nodes)))
