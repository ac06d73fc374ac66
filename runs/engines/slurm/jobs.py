"""Slurm's answers as plain values. Versions from 21.08 on: numbers and states have changed their shape since."""

from collections.abc import Iterator
from dataclasses import replace

from runs.causes.allocations import EndKind
from runs.engines.machine_system import JobEnd, JobState, SystemJob, Words
from runs.engines.refusals import SystemAway
from runs.engines.slurm.script import attempt_in
from trainyard.contract.base import BadDocument, JsonObject, decode

REASONS = {
    "None": "Slurm has not looked at it yet",
    "Priority": "other jobs are ahead of it in Slurm's queue",
    "Resources": "it is next, and waits for machines to be free",
    "BeginTime": "the time at which it may begin has not come",
    "Dependency": "it waits for another job",
    "JobHeldUser": "somebody holds it (`scontrol release` lets it go)",
    "JobHeldAdmin": "an administrator of Slurm holds it",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs now",
    "PartitionNodeLimit": "it asks for more machines than its partition gives to one job",
    "PartitionTimeLimit": "its time limit is longer than its partition allows",
    "PartitionConfig": "its partition cannot give what it asks for",
    "BadConstraints": "no machine can give what it asks for",
    "NodeDown": "a machine that it needs is down",
    "Licenses": "it waits for a licence",
    "Reservation": "it waits for its reservation to begin",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AssociationJobLimit": "its account has as many jobs as it may have",
    "AssociationResourceLimit": "its account uses as much as it may use",
    "AssocMaxJobsLimit": "its account has as many jobs as it may have",
    "QOSResourceLimit": "its QOS uses as much as it may use",
    "QOSJobLimit": "its QOS has as many jobs as it may have",
    "QOSNotAllowed": "its partition does not take its QOS",
    "JobLaunchFailure": "its machines could not start it",
    "Cleaning": "what an earlier try left is being removed",
    "Prolog": "its machines are being prepared",
    "NonZeroExitCode": "it ended with an error",
    "SystemFailure": "Slurm itself failed",
}
FAMILIES = {
    "QOSMax": "it asks for more than its QOS allows, or its QOS uses all that it may",
    "QOSGrp": "its QOS uses as much as it may use",
    "QOSMin": "it asks for less than its QOS demands",
    "AssocMax": "it asks for more than its account allows, or the account uses all that it may",
    "AssocGrp": "its account uses as much as it may use",
    "Reservation": "its reservation is not usable",
    "JobHeld": "it is held",
    "ReqNodeNotAvail": "machines that it asks for are down, drained or reserved",
}
PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
ENDS = {
    "COMPLETED": None, "CANCELLED": EndKind.CANCELLED, "FAILED": EndKind.ENDED, "TIMEOUT": EndKind.TIME_LIMIT,
    "DEADLINE": EndKind.TIME_LIMIT, "NODE_FAIL": EndKind.NODE_FAILED, "BOOT_FAIL": EndKind.NODE_FAILED,
    "PREEMPTED": EndKind.PREEMPTED, "REVOKED": EndKind.PREEMPTED, "OUT_OF_MEMORY": EndKind.OUT_OF_MEMORY,
}  # fmt: skip
STILL_THERE = "COMPLETING"  # beside how it ended: some of its processes may live


def parse_jobs(text: str, mark: str) -> list[SystemJob]:
    """Return the jobs of ``squeue --json`` that are ours. Raises SystemAway for what is no such answer."""
    try:
        jobs = decode(text, JsonObject).get("jobs") or []
    except BadDocument as error:
        raise SystemAway(f"Slurm's answer to squeue cannot be read: {error}.") from error
    found = ((attempt_in(str(job.get("comment") or ""), mark), job) for job in jobs if isinstance(job, dict))
    return [job_of(document, attempt) for attempt, document in found if attempt]


def job_of(document: JsonObject, attempt: str) -> SystemJob:
    states = list(_states(document.get("job_state")))
    hosts = str(document.get("nodes") or "")
    reason = str(document.get("state_reason") or "None")
    job = SystemJob(
        id=str(_number(document.get("job_id")) or ""),
        attempt=attempt,
        state=JobState.RUNNING,
        hosts=(hosts,) if hosts else (),
        started_at=_time(document.get("start_time")),
        ends_at=_time(document.get("end_time")),
    )
    end = next((state for state in states if state in ENDS), "")
    if end and STILL_THERE not in states:
        return ended(job, end, _exit_code(document.get("exit_code")))
    if end or not PENDING.intersection(states):
        return job
    return replace(job, started_at=None, ends_at=None).waiting(Words(reason, sentence_of(reason)))


def ended(job: SystemJob, state: str, exit_code: int | None, by: str = "") -> SystemJob:
    """Return the job as one that is over. ``state`` is Slurm's word for the end, ``by`` who cancelled it, if known."""
    return job.ended(JobEnd(ENDS.get(state, EndKind.ENDED), _end_sentence(job.id, state, exit_code, by), exit_code))


def parse_accounts(text: str, job: str) -> SystemJob | None:
    """Return the job of ``sacct --parsable2`` with State, ExitCode and NodeList; None where it has no such line."""
    fields = next((line.split("|") for line in text.splitlines() if line.count("|") == 2), None)
    if fields is None:
        return None
    words, _, by = fields[0].partition(" by ")
    state = words.split(" ")[0]
    found = SystemJob(job, "", JobState.RUNNING, hosts=(fields[2],) if fields[2] else ())
    if state not in ENDS:
        return found
    code = fields[1].partition(":")[0]
    return ended(found, state, int(code) if code.isdecimal() else None, by=by)


def _end_sentence(job: str, state: str, exit_code: int | None, by: str) -> str:
    who = f" by user {by}" if by else ""
    return {
        "CANCELLED": f"Slurm job {job} was cancelled with Slurm's own tools{who} (`scancel`).",
        "TIMEOUT": f"Slurm ended job {job} at its time limit; the run goes on in another job.",
        "DEADLINE": f"Slurm ended job {job} at its deadline.",
        "NODE_FAIL": f"Slurm ended job {job} since one of its machines failed.",
        "BOOT_FAIL": f"Slurm ended job {job} since one of its machines did not boot.",
        "PREEMPTED": f"Slurm gave the machines of job {job} to a job with more right to them.",
        "REVOKED": f"Slurm took job {job} away from this cluster.",
        "OUT_OF_MEMORY": f"Slurm job {job} used more memory than it may and was ended; raise the cluster's memory.",
        "COMPLETED": f"Slurm job {job} ended.",
    }.get(state, f"Slurm job {job} ended with exit code {exit_code or 0}.")


def _states(value: object) -> Iterator[str]:
    """Yield the words of a state: a text, with flags behind it or not, or a list."""
    for one in value if isinstance(value, list) else [value]:
        yield from str(one or "").replace("+", " ").replace(",", " ").upper().split()


def _number(value: object) -> int | None:
    """Return a number, bare or as ``{"set": true, "infinite": false, "number": 1}``."""
    if isinstance(value, dict):
        return _number(value.get("number")) if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(value: object) -> float | None:
    return float(number) if (number := _number(value)) else None


def _exit_code(value: object) -> int | None:
    """Return the exit code of a status as ``wait`` has it, or as newer versions take it apart."""
    if isinstance(value, dict) and "return_code" in value:
        return _number(value["return_code"])
    status = _number(value)
    return None if status is None else status >> 8 if status > 255 else status


# Reasons why a job is pending, in words, by Slurm's own word for each.


def sentence_of(reason: str) -> str:
    """Return the sentence of a reason, which may go on behind a comma; Slurm's word stands in brackets."""
    word = reason.partition(",")[0].strip()
    words = REASONS.get(word) or next((text for start, text in FAMILIES.items() if word.startswith(start)), "")
    if not word:
        return "it is pending."
    return f"{words} ({word})." if words else f"Slurm says {word}."
