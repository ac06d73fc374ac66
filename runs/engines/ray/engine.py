"""The engine ``ray``."""

import math
from collections.abc import Iterator, Mapping, Sequence

from runs.causes.allocations import EndKind
from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings.settings import secret_of
from runs.engines.findings import Finding, Probe, not_run, probe_answers
from runs.engines.machine_system import (
    JobEnd,
    JobState,
    MachineRequest,
    Origin,
    SystemJob,
    Words,
    node_variables,
    node_words,
    origin_of,
)
from runs.engines.ray.programs import START_LIMIT_S, RayAddress, RayProgram, program_of
from runs.engines.ray.settings import RaySettings
from runs.engines.ray.trainyard_ray.documents import Call, Demand, JobReport, RayAnswer, RayMachine, RayRequest
from runs.engines.refusals import Refusal, SystemAway, needed, not_taken
from runs.models import Cluster
from trainyard.contract.base import BadDocument, JsonObject, decode
from trainyard.formats.words import counted, listed

STATES = {"starting": JobState.PENDING, "pending": JobState.PENDING, "running": JobState.RUNNING, "over": JobState.OVER}
ENDS = {
    "": None, "exited": EndKind.ENDED, "failed": EndKind.ENDED, "out-of-memory": EndKind.ENDED,
    "machine-died": EndKind.NODE_FAILED, "preempted": EndKind.PREEMPTED, "removed": EndKind.CANCELLED,
    "killed": EndKind.CANCELLED,
}  # fmt: skip


class RayEngine(AllocatingEngine):
    label = "Ray"
    about = "A placement group of a Ray cluster brings machines for each run, which leave with it."
    settings_type = RaySettings
    access = ("token", "Enter it again where the cluster is edited.")

    def system(self, cluster: Cluster) -> "RaySystem":
        settings = RaySettings.of(cluster.settings)
        place = RayAddress(settings.address, settings.ray_python, secret_of(cluster, "token"))
        return RaySystem(settings, origin_of(cluster), program_of(place))


class RaySystem:
    def __init__(self, settings: RaySettings, origin: Origin, program: RayProgram) -> None:
        self._settings = settings
        self._cluster, self._server = origin.cluster, origin.server
        self._prefix = f"trainyard-{origin.mark}-"
        self._program = program

    def steps(self, probe: Probe) -> Iterator[Finding]:
        try:
            yield from examine(self._settings, self._program, probe)
        finally:
            self._program.end()

    def jobs(self) -> list[SystemJob]:
        answer = self._program.call(Call("survey", prefix=self._prefix))
        return [system_job(one, one.job.removeprefix(self._prefix), answer.machines) for one in answer.jobs]

    def find(self, job: str) -> SystemJob | None:
        answer = self._program.call(Call("find", job))
        return next((system_job(one, job.removeprefix(self._prefix), ()) for one in answer.jobs), None)

    def submit(self, request: MachineRequest) -> str:
        job = f"{self._prefix}{request.attempt}"
        answer = self._program.call(Call("submit", job, request=self._request(job, request)))
        if answer.problem:
            raise not_taken("Ray", self._cluster, Refusal(answer.problem), is_passing=False)
        return job

    def cancel(self, job: str) -> None:
        self._program.call(Call("cancel", job))

    def _request(self, job: str, request: MachineRequest) -> RayRequest:
        settings, folder = self._settings, self._settings.folder
        cores = request.slots * settings.cpus_per_slot
        words = node_words(settings.python, request, server=self._server, home=f"{folder}/machines")
        return RayRequest(
            job=job,
            num_machines=request.num_machines,
            demand=settings.demand(request.slots),
            strategy=settings.strategy,
            words=words[1:],
            variables=node_variables(request.tokens, checkpoints=f"{folder}/checkpoints", cores=cores),
            output=f"{folder}/trainyard-{request.attempt}.out",
            python=settings.python,
            runtime_env=runtime_env_of(settings),
        )


def runtime_env_of(settings: RaySettings) -> JsonObject:
    try:
        return decode(settings.runtime_env, JsonObject) if settings.runtime_env else {}
    except BadDocument:  # it was checked when it was stored
        return {}


# Steps of `trainyard doctor`. A step that needs an earlier one is left out where that failed.

TRY_LIMIT_S = 60.0
CONNECT_ADVICE = (
    "Is Ray's head running, and does this server reach it? Its version and Python's must be those of the cluster: set "
    "“Python with Ray” to an interpreter that has them."
)


def examine(settings: RaySettings, program: RayProgram, probe: Probe) -> Iterator[Finding]:
    with needed("connection", CONNECT_ADVICE):
        answer = program.call(Call("survey", prefix="trainyard-"), patience_s=START_LIMIT_S)
    number = len(answer.machines)
    jobs = counted(len(answer.jobs), "job")
    yield Finding("connection", True, f"Ray {program.version} at {settings.address} answers ({jobs} of Trainyard).")
    demand = settings.demand(settings.slots)
    most = room([machine.resources for machine in answer.machines], demand.bundle(), settings.strategy)
    words = f"Ray has {number} machines, with room for {most} of {settings.machines} with {demand_words(demand)} each."
    advice = "Unless an autoscaler adds machines, change what the cluster asks for, or how many machines it has."
    yield Finding("machines", True if most >= settings.machines else (None if most else False), words, advice)
    now = room([machine.free for machine in answer.machines], demand.bundle(), settings.strategy)
    yield from _try(settings, program, max(1, min(2, settings.machines, now or most)), probe)


def _try(settings: RaySettings, program: RayProgram, number: int, probe: Probe) -> Iterator[Finding]:
    request = RayRequest(
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
        answer = RayAnswer(problem=str(error))
    if answer.problem:
        yield not_run(number, answer.problem, "Where all machines are taken, try again later.")
        return
    yield from probe.trial(probe_answers("\n".join(answer.outputs)), number, settings.folder)


# Reports of Ray as words: why machines are not there yet, and how they ended.


def system_job(report: JobReport, attempt: str, machines: Sequence[RayMachine]) -> SystemJob:
    state, hosts = STATES.get(report.state, JobState.PENDING), tuple(report.hosts)
    job = SystemJob(report.job, attempt, state, hosts=hosts, started_at=report.started_at)
    if state == JobState.PENDING:
        return job.waiting(pending_words(report, machines))
    if state == JobState.RUNNING:
        return job
    end = JobEnd(ENDS.get(report.end, EndKind.ENDED), end_sentence(report), report.exit_code)
    return job.ended(end, is_kept=True)  # its actor, which uses nothing but a little memory


def pending_words(report: JobReport, machines: Sequence[RayMachine]) -> Words:
    """Return a word for why the job is pending, and a sentence."""
    if report.demand is None or report.state == "starting":
        return Words("Starting", "Ray is starting its actor (Starting).")
    usable = [machine for machine in machines if not machine.is_draining]
    number, wanted = report.num_machines, demand_words(report.demand)
    bundle = report.demand.bundle()
    most = room([machine.resources for machine in usable], bundle, report.strategy)
    now = room([machine.free for machine in usable], bundle, report.strategy)
    if most < number:
        has = f"Ray's {len(usable)} machines have room for {most} of {number} in all" if usable else "Ray has none"
        words = "Unless an autoscaler adds machines, it waits for ever (Infeasible)."
        return Words("Infeasible", f"it asks for {_times(number, wanted, report.strategy)}, and {has}. {words}")
    if now < number:
        no = "no machine of Ray has" if now == 0 else "no further machine of Ray has"
        return Words("Resources", f"{no} {wanted} free; there is room for {now} of {number} now (Resources).")
    return Words("Starting", f"there is room for all {number}, and Ray is placing them (Starting).")


def room(machines: Sequence[Mapping[str, float]], bundle: Mapping[str, float], strategy: str) -> int:
    """Return how many bundles the machines can hold."""
    each = [min(math.floor(one.get(name, 0.0) / amount + 1e-9) for name, amount in bundle.items()) for one in machines]
    if strategy == "STRICT_SPREAD":
        return sum(number > 0 for number in each)
    return max(each, default=0) if strategy == "STRICT_PACK" else sum(each)


def demand_words(demand: Demand) -> str:
    """Return ``"8 GPU, 16 CPU and 64 GB"``."""
    bundle = demand.bundle()
    parts = [f"{bundle[name]:g} {name}" for name in ("GPU", "CPU") if name in bundle]
    if demand.memory_bytes:
        parts.append(f"{demand.memory_bytes / 2**30:g} GiB of memory")
    for name, amount in demand.resources.items():
        kind = name.removeprefix("accelerator_type:")
        parts.append(f"{amount:g} {name}" if kind == name else f"GPUs of the kind {kind}")
    return listed(parts)


def _times(number: int, wanted: str, strategy: str) -> str:
    if number == 1:
        return f"a machine with {wanted}"
    apart = " different" if strategy == "STRICT_SPREAD" else ""
    one = "one machine with room for " if strategy == "STRICT_PACK" else ""
    return f"{one}{number}{apart} machines with {wanted} each"


def end_sentence(report: JobReport) -> str:
    """Return how a job ended, as a sentence. One that was given back says only that it ended."""
    job, words = report.job, report.words.rstrip(".")
    where = f" on {report.host}" if report.host else ""
    quoted = f": {words}" if words else ""
    code = f" with exit code {report.exit_code}" if report.exit_code is not None else ""
    return {
        "": f"Ray job {job} ended.",
        "exited": f"The node program of Ray job {job}{where} ended{code}{quoted}.",
        "machine-died": f"Ray ended job {job} since its machine {report.host or 'there'} died{quoted}.",
        "preempted": f"A machine of Ray job {job} was taken back{where}{quoted}.",
        "out-of-memory": f"Ray ended job {job}{where}, where memory had run out{quoted}.",
        "removed": f"Ray job {job} was ended with Ray's own tools: its placement group was removed.",
        "killed": f"Ray job {job} was ended with Ray's own tools: an actor of it was killed.",
    }.get(report.end, f"Ray job {job}{where} failed{quoted}.")
