"""Messages between control and the program: a line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

NAMESPACE = "trainyard"  # of our actors in Ray
SILENT = "starting"  # the state of a job whose actor has not answered


@dataclass
class Demand:
    """Resources that each machine must have."""

    cpus: float
    gpus: float = 0.0
    memory_bytes: float = 0.0
    resources: dict[str, float] = field(default_factory=dict)

    def bundle(self) -> dict[str, float]:
        """Return it in Ray's words."""
        found = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory_bytes, **self.resources}
        return {name: amount for name, amount in found.items() if amount}


@dataclass
class RayRequest:
    """Machines for one attempt, and what is started on each. ``variables`` hold secrets."""

    job: str
    num_machines: int
    demand: Demand
    strategy: str
    words: list[str]  # behind the interpreter; the number of the machine follows
    variables: dict[str, str] = field(repr=False)
    output: str = ""  # the file that takes what the programs print
    python: str = ""  # empty: the interpreter that Ray itself runs on
    runtime_env: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> RayRequest:
        return _request(json.loads(text))


@dataclass
class Call:
    """``verb``: survey, find, submit, cancel, or try. ``job`` is the name of one; ``prefix`` begins those of ours."""

    verb: str
    job: str = ""
    prefix: str = ""
    request: RayRequest | None = None
    limit_s: float = 8.0  # after which the program answers in any case

    @classmethod
    def read(cls, text: str | bytes) -> Call:
        document = json.loads(text)
        request = document.pop("request", None)
        return cls(**document, request=None if request is None else _request(request))


@dataclass
class JobReport:
    """``state``: starting, pending, running or over. ``end``, of one that is over before it was given back: exited,
    machine-died, removed, killed, out-of-memory, preempted or failed. Times are Unix seconds."""

    job: str
    state: str
    num_machines: int = 0
    strategy: str = ""
    demand: Demand | None = None
    hosts: list[str] = field(default_factory=list)
    started_at: float | None = None
    end: str = ""
    host: str = ""  # where it ended first
    words: str = ""  # Ray's own, or the last ones of a program
    exit_code: int | None = None


@dataclass
class RayMachine:
    host: str
    resources: dict[str, float]
    free: dict[str, float]
    is_draining: bool = False


@dataclass
class RayAnswer:
    """``problem``: why there is no other answer, in Ray's words. ``kind`` of it: away, refused or no-library."""

    jobs: list[JobReport] = field(default_factory=list)
    machines: list[RayMachine] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    version: str = ""
    problem: str = ""
    kind: str = ""

    @classmethod
    def read(cls, text: str) -> RayAnswer:
        document = json.loads(text)
        return cls(**{**document, "jobs": [JobReport(**job) for job in document["jobs"]]})


def text_of(document: RayRequest | RayAnswer) -> str:
    """Return what ``read`` takes: Ray carries texts, for its machines may have other versions of these classes."""
    return json.dumps(asdict(document))


def _request(document: Mapping[str, Any]) -> RayRequest:
    return RayRequest(**{**document, "demand": Demand(**document["demand"])})
