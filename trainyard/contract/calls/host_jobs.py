"""Calls of the server to a host of an SSH cluster, and their answers: one document each way, by the standard input and
output of ``workers.host_jobs``."""

from enum import StrEnum
from typing import Annotated

import msgspec

from trainyard.contract.base import Id, Seconds, Whole, WireStruct

Text = Annotated[str, msgspec.Meta(max_length=2_000)]


class HostVerb(StrEnum):
    LIST = "list"
    START = "start"
    END = "end"  # stop what runs, forget what is over


class HostJobState(StrEnum):
    PLANNED = "planned"  # its folder is there, and nothing was started
    RUNNING = "running"
    OVER = "over"


class HostJob(WireStruct, kw_only=True):
    """One machine's part of an attempt. ``hosts``: of all its parts, in the order of their numbers."""

    attempt: Id
    machine: Annotated[int, msgspec.Meta(ge=0, le=100_000)]  # its number among those of the attempt
    hosts: list[Annotated[str, msgspec.Meta(max_length=400)]]
    state: HostJobState = HostJobState.PLANNED
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    exit_code: Whole | None = None  # None: nobody saw how it ended
    last_words: Text = ""  # of what it printed, where it failed


class HostQuestion(WireStruct, kw_only=True):
    """``folder`` of the host holds its jobs; ``mark`` tells those of one cluster from others. ``words`` and
    ``variables`` are the command to START; the variables hold a token."""

    verb: HostVerb
    folder: str
    mark: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,40}$")]
    job: HostJob | None = None
    words: list[str] = []
    variables: dict[str, str] = {}


class HostAnswer(WireStruct, kw_only=True):
    host: Text
    version: Text
    jobs: list[HostJob]
    problem: Text = ""  # a sentence, where what was asked could not be done
