"""Reports of Ray as words: why machines are not there yet, and how they ended."""

import math
from collections.abc import Mapping, Sequence

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobState, SystemJob
from runs.engines.ray.trainyard_ray.documents import Demand, JobReport, RayMachine

STATES = {"starting": JobState.PENDING, "pending": JobState.PENDING, "running": JobState.RUNNING, "over": JobState.OVER}
ENDS = {
    "": None,
    "exited": EndKind.ENDED,
    "failed": EndKind.ENDED,
    "out-of-memory": EndKind.ENDED,
    "machine-died": EndKind.NODE_FAILED,
    "preempted": EndKind.PREEMPTED,
    "removed": EndKind.CANCELLED,
    "killed": EndKind.CANCELLED,
}
UNITS = (("GPU", "GPU"), ("CPU", "CPU"))


def system_job(report: JobReport, attempt: str, machines: Sequence[RayMachine]) -> SystemJob:
    state = STATES.get(report.state, JobState.PENDING)
    reason, sentence = pending_words(report, machines) if state == JobState.PENDING else ("", "")
    return SystemJob(
        id=report.job,
        attempt=attempt,
        state=state,
        reason=reason,
        sentence=sentence,
        hosts=tuple(report.hosts),
        started_at=report.started_at,
        end=ENDS.get(report.end, EndKind.ENDED) if state == JobState.OVER else None,
        end_sentence=end_sentence(report) if state == JobState.OVER else "",
        exit_code=report.exit_code,
        is_kept=state == JobState.OVER,  # its actor, which uses nothing but a little memory
    )


def pending_words(report: JobReport, machines: Sequence[RayMachine]) -> tuple[str, str]:
    """Return a word for why the job is pending, and a sentence."""
    if report.demand is None or report.state == "starting":
        return "Starting", "Ray is starting its actor (Starting)."
    usable = [machine for machine in machines if not machine.is_draining]
    number, wanted = report.num_machines, demand_words(report.demand)
    bundle = report.demand.bundle()
    most = room([machine.resources for machine in usable], bundle, report.strategy)
    now = room([machine.free for machine in usable], bundle, report.strategy)
    if most < number:
        has = f"Ray's {len(usable)} machines have room for {most} of {number} in all" if usable else "Ray has none"
        return (
            "Infeasible",
            f"it asks for {_times(number, wanted, report.strategy)}, and {has}. Unless an autoscaler adds machines, "
            "it waits for ever (Infeasible).",
        )
    if now < number:
        no = "no machine of Ray has" if now == 0 else "no further machine of Ray has"
        return "Resources", f"{no} {wanted} free; there is room for {now} of {number} now (Resources)."
    return "Starting", f"there is room for all {number}, and Ray is placing them (Starting)."


def room(machines: Sequence[Mapping[str, float]], bundle: Mapping[str, float], strategy: str) -> int:
    """Return how many bundles the machines can hold."""
    each = [
        min(math.floor(resources.get(name, 0.0) / amount + 1e-9) for name, amount in bundle.items())
        for resources in machines
    ]
    if strategy == "STRICT_SPREAD":
        return sum(number > 0 for number in each)
    if strategy == "STRICT_PACK":
        return max(each, default=0)
    return sum(each)


def demand_words(demand: Demand) -> str:
    """Return ``"8 GPU, 16 CPU and 64 GB"``."""
    bundle = demand.bundle()
    parts = [f"{bundle[name]:g} {unit}" for name, unit in UNITS if name in bundle]
    if demand.memory_bytes:
        parts.append(f"{demand.memory_bytes / 2**30:g} GiB of memory")
    for name, amount in demand.resources.items():
        kind = name.removeprefix("accelerator_type:")
        parts.append(f"{amount:g} {name}" if kind == name else f"GPUs of the kind {kind}")
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else "".join(parts)


def _times(number: int, wanted: str, strategy: str) -> str:
    apart = " different" if strategy == "STRICT_SPREAD" else ""
    one = " one machine with room for" if strategy == "STRICT_PACK" else ""
    return (
        f"a machine with {wanted}"
        if number == 1
        else f"{one.strip()} {number}{apart} machines with {wanted} each".strip()
    )


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
