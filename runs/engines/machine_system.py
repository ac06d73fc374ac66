"""Interface between an engine that brings nodes and its own system, such as Slurm."""

import os
import pwd
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from django.conf import settings
from django.utils.crypto import salted_hmac

from runs.causes.allocations import EndKind
from runs.engines.findings import Finding, Probe
from runs.models import Cluster


def mark_of(cluster: str) -> str:
    """Return a word by which this server knows the jobs of one of its clusters, by id. Other clusters of ours, and
    other servers, may use the same system."""
    return salted_hmac("runs.engines.marks", cluster).hexdigest()[:12]


@dataclass(frozen=True)
class Origin:
    """The server that asks for machines. ``mark`` distinguishes our clusters, and those of other servers."""

    mark: str
    cluster: str
    server: str  # its address as the machines reach it


def origin_of(cluster: Cluster) -> Origin:
    return Origin(mark_of(cluster.pk), cluster.name, cluster.settings.get("server") or settings.PUBLIC_URL)


class Words(NamedTuple):
    """Why a job waits. ``reason`` is the system's own word."""

    reason: str
    sentence: str


class JobEnd(NamedTuple):
    """Why a job, or a part of it, is over. ``kind`` None: its programs ended well."""

    kind: EndKind | None
    sentence: str
    exit_code: int | None = None


class JobState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    OVER = "over"


@dataclass(frozen=True)
class SystemJob:
    """A job as the system sees it. Times are Unix seconds."""

    id: str
    attempt: str
    state: JobState
    reason: str = ""  # why it is pending, by the system's word
    sentence: str = ""  # the same in words
    hosts: tuple[str, ...] = ()
    started_at: float | None = None
    ends_at: float | None = None  # when the system will end it
    end: EndKind | None = None  # of one that is over; None: its programs ended well
    end_sentence: str = ""
    exit_code: int | None = None
    is_incomplete: bool = False  # not all of its machines were asked for: it is submitted again, and completed
    is_kept: bool = False  # it is over, and something of it stays there until it is cancelled once more

    def waiting(self, why: Words) -> "SystemJob":
        return replace(self, state=JobState.PENDING, reason=why.reason, sentence=why.sentence)

    def ended(self, end: JobEnd, *, is_kept: bool = False) -> "SystemJob":
        kind, sentence, code = end
        return replace(self, state=JobState.OVER, end=kind, end_sentence=sentence, exit_code=code, is_kept=is_kept)


def unsubmitted(job: str, attempt: str) -> SystemJob:
    """Return a job whose submission was cut off: it has started nothing, and is submitted again."""
    return SystemJob(job, attempt, JobState.PENDING, sentence="it is being submitted.", is_incomplete=True)


@dataclass(frozen=True)
class MachineRequest:
    """Machines for one attempt. ``tokens`` are secret: one for each machine, in the order of the node ranks."""

    attempt: str
    name: str  # of the run, for people who look at the system's queue
    num_machines: int
    slots: int  # ranks on each
    tokens: Sequence[str] = field(repr=False)
    project: str = ""  # its name
    owner: str = ""  # who launched the run, by user name
    node: str = ""  # the name of a node that stays for any run; empty: they serve the attempt alone


class MachineSystem(Protocol):
    """Its methods take as long as the system takes, up to a limit of theirs. They raise SystemAway."""

    def jobs(self) -> list[SystemJob]:
        """Return our jobs that the system has not forgotten."""

    def find(self, job: str) -> SystemJob | None:
        """Return a job that ``jobs`` does not name any more, from the system's accounts where it keeps some."""

    def submit(self, request: MachineRequest) -> str:
        """Ask for machines and return the system's name for the job. A job that is there already, whole or in part, is
        completed and not repeated, where the system can see to that. Raises SystemRefused."""

    def cancel(self, job: str) -> None:
        """Give the machines back. A job that is over, or unknown, is no error."""

    def steps(self, probe: Probe) -> Iterator[Finding]:
        """Yield what `trainyard doctor` finds. Raises StepFailed where the steps behind it need the one that failed."""


def user_variables() -> dict[str, str]:
    """Return the variables that say who this server's user is, for programs that get none of its others."""
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return {"HOME": "/"}
    return {"USER": user.pw_name, "LOGNAME": user.pw_name, "HOME": user.pw_dir}


def node_words(interpreter: str, request: MachineRequest, *, server: str, home: str) -> list[str]:
    """Return the command as an argument list. ``home`` is a folder of the machine. Nothing in it is secret."""
    program = [interpreter, "-P", "-m", "workers.node"]  # -P: the working folder may be shared: it is not imported
    about = ["--server", server, "--home", home, "--slots", str(request.slots)]
    return [*program, *(["--name", request.node] if request.node else ["--for-attempt", request.attempt]), *about]


def node_variables(tokens: Sequence[str], *, checkpoints: str, cores: int | None = None) -> dict[str, str]:
    """Return the variables of the command. ``tokens`` are secret: they go by the environment alone, never as an
    argument. ``cores``: how many the ranks may use together, where others may have the machine's other ones."""
    made = {"TRAINYARD_JOIN": " ".join(tokens), "TRAINYARD_CHECKPOINTS": checkpoints}
    return made if cores is None else {**made, "TRAINYARD_CORES": str(cores)}
