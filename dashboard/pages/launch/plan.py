"""What the launch page says of a spec before it is launched: its shape, when it could start, and the same as text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import yaml

from dashboard.pages.launch.cost import Cost, cost
from dashboard.pages.launch.mesh_drawing import Drawing, draw
from runs.access import Forbidden, NotFound, Permission, Someone, projects_with, require
from runs.actions.checking import Launchable, NeverFits, Packed, check_launch
from runs.engines import engine_of
from runs.models import Node, Project
from runs.placing.planning import likely_nodes
from runs.placing.queue import forecast
from runs.placing.scheduling import Placed
from trainyard.contract.base import JsonObject
from trainyard.formats.words import listed
from trainyard.spec import Problem, Spec, SpecError, is_own_code, parse_spec, range_sentence

TONE_ICONS = {"green": "check", "grey": "status-queued", "red": "alert"}


class Plan(NamedTuple):
    problems: list[Problem]
    mesh: Drawing | None
    sentence: str
    tone: str  # green: starts at once; grey: waits; red: never, not valid, or more memory than there is
    yaml: str
    command: str
    curl: str
    cost: Cost | None = None  # of a recipe that trains
    is_script: bool = False
    overflow: str = ""  # about missing memory: such a run is launched after a confirmation
    start: str = ""  # when it could start, where the sentence is about something worse

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
    url: str,
    now: datetime,
    *,
    coloured_by: str = "",
    packed: Packed | None = None,
    source: str = "",
) -> Plan:
    """``url`` is how this site is reached from outside, for the curl command; ``coloured_by`` an axis of the mesh;
    ``packed`` the code that would be stored with the launch; ``source`` what the form was filled from."""
    problems: list[Problem] = []
    found: Cost | None = None
    nodes: Sequence[Node] = ()
    try:
        launchable = check_launch(actor=user, document=document, wanted=Permission.PROJECTS_READ, packed=packed)
        _refuse_lookers(user, launchable.project)
    except NeverFits as error:
        problems, tone = error.errors, "red"
        sentence = f"It can never start on {error.cluster.name}: {problems[0].message}."
    except (SpecError, NotFound, Forbidden) as error:
        problems, tone = _problems(error), "red"
        sentence = f"{len(problems)} {'thing is' if len(problems) == 1 else 'things are'} wrong with this spec."
    else:
        nodes, sentence, tone = _prospects(launchable, now)
        found = cost(user, launchable.spec, nodes, source)
    spec, document = _typed(document)
    shown = spec.at(len(nodes)) if spec and nodes and spec.resources.is_elastic else spec
    mesh = draw(shown, [node.name for node in nodes] if tone == "green" else (), coloured_by) if shown else None
    if spec and tone != "red" and (words := range_sentence(spec)):
        sentence = f"{sentence} {words}"
    overflow, start = found.overflow if found else "", ""
    if overflow:
        sentence, start, tone = overflow, sentence, "red"
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return Plan(
        problems=problems,
        mesh=mesh,
        sentence=sentence,
        tone=tone,
        yaml=text,
        command=as_command(text),
        curl=as_curl(document, url),
        cost=found,
        is_script=is_own_code(document["task"]),
        overflow=overflow,
        start=start,
    )


def _refuse_lookers(user: Someone, project: Project) -> None:
    """Someone without a project sees what a launch would do, and that they cannot launch."""
    if projects_with(user, Permission.RUNS_LAUNCH).exists():
        require(user, project, Permission.RUNS_LAUNCH)


def _problems(error: SpecError | NotFound | Forbidden) -> list[Problem]:
    return error.errors if isinstance(error, SpecError) else [Problem("project", str(error))]


def _typed(document: JsonObject) -> tuple[Spec | None, JsonObject]:
    """The spec and the whole document, or the document as it was typed."""
    try:
        spec = parse_spec(document)
    except SpecError:
        return None, document
    return spec, spec.resolved()


def _prospects(found: Launchable, now: datetime) -> tuple[Sequence[Node], str, str]:
    """Return the nodes where it would start (or would, if they were idle), a sentence and its tone."""
    answer = forecast(found.cluster, found.spec.resolved(), engine_of(found.cluster).capacity(found.cluster, now))
    if not isinstance(answer, Placed):
        return likely_nodes(found.spec, found.nodes), answer.sentence, "grey"
    by_id = {node.pk: node for node in found.nodes}
    chosen = [by_id[part.node] for part in answer.parts if part.node in by_id]
    names = [node.name for node in chosen]
    shown = listed(names, at_most=None if len(names) <= 4 else 3)
    return chosen, f"It would start at once, on {shown}.", "green"


def as_command(text: str) -> str:
    return f"trainyard submit - <<'END_OF_SPEC'\n{text}END_OF_SPEC"


def as_curl(document: JsonObject, url: str) -> str:
    body = shlex.quote(json.dumps(document, ensure_ascii=False))
    return (
        f'curl -X POST {shlex.quote(url + "/api/v1/runs")} -H "Authorization: Bearer $TRAINYARD_TOKEN"'
        f" -H 'Content-Type: application/json' -d {body}"
    )
