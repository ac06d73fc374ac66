"""Step by step, whether a Ray cluster can run what is launched on it. A step that needs an earlier one is left out
where that failed."""

from __future__ import annotations

from collections.abc import Iterator

from runs.engines.findings import Finding, Probe, not_run, probe_answers
from runs.engines.machine_system import SystemAway
from runs.engines.ray.programs import START_LIMIT_S, Program
from runs.engines.ray.reasons import demand_words, room
from runs.engines.ray.settings import RaySettings
from runs.engines.ray.trainyard_ray.documents import Answer, Call, Request

TRY_LIMIT_S = 60.0
CONNECT_ADVICE = (
    "Is Ray's head running, and does this server reach it? Its version and Python's must be those of the cluster: set "
    "“Python with Ray” to an interpreter that has them."
)


def examine(settings: RaySettings, program: Program, probe: Probe) -> Iterator[Finding]:
    """Yield what is found, one step after the other."""
    try:
        answer = program.call(Call("survey", prefix="trainyard-"), patience_s=START_LIMIT_S)
    except SystemAway as error:
        yield Finding("connection", False, str(error), CONNECT_ADVICE)
        return
    number = len(answer.machines)
    jobs = f"{len(answer.jobs)} job{'' if len(answer.jobs) == 1 else 's'}"
    yield Finding("connection", True, f"Ray {program.version} at {settings.address} answers ({jobs} of Trainyard).")
    demand = settings.demand(settings.slots)
    resources = [machine.resources for machine in answer.machines]
    most = room(resources, demand.bundle(), settings.strategy)
    words = f"Ray has {number} machines, with room for {most} of {settings.machines} with {demand_words(demand)} each."
    advice = "Unless an autoscaler adds machines, change what the cluster asks for, or how many machines it has."
    yield Finding("machines", True if most >= settings.machines else (None if most else False), words, advice)
    now = room([machine.free for machine in answer.machines], demand.bundle(), settings.strategy)
    yield from _try(settings, program, max(1, min(2, settings.machines, now or most)), probe)


def _try(settings: RaySettings, program: Program, number: int, probe: Probe) -> Iterator[Finding]:
    """Have ``number`` machines try what a node does."""
    request = Request(
        job="",
        num_machines=number,
        demand=settings.demand(1),
        strategy=settings.strategy,
        words=probe.words("", settings.folder)[1:],
        variables={},
        python=settings.python,
    )
    try:
        answer = program.call(Call("try", request=request, limit_s=TRY_LIMIT_S))
    except SystemAway as error:
        answer = Answer(problem=str(error))
    if answer.problem:
        yield not_run(number, answer.problem, "Where all machines are taken, try again later.")
        return
    yield from probe.trial(probe_answers("\n".join(answer.outputs)), number, settings.folder)
