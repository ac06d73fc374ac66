"""What we read of the objects of Kubernetes, as types. Unknown fields are ignored; an empty list may be missing or null."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Document(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of an object."""


class Owner(Document):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Metadata(Document):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None  # of a pod: when its grace ends
    deletion_grace_period_seconds: int | None = None
    owner_references: list[Owner] | None = None

    def label(self, name: str) -> str:
        return (self.labels or {}).get(name, "")


class Condition(Document):
    """``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class Waiting(Document):
    reason: str = ""
    message: str = ""


class Running(Document):
    started_at: datetime | None = None


class Terminated(Document):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Document):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Document):
    name: str = ""
    state: ContainerState = ContainerState()


class PodStatus(Document):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodSpec(Document):
    node_name: str = ""


class Pod(Document):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.status.conditions or [] if one.type == kind), None)

    @property
    def containers(self) -> list[ContainerStatus]:
        return [*(self.status.init_container_statuses or []), *(self.status.container_statuses or [])]


class PodList(Document):
    items: list[Pod] | None = None


class JobSpec(Document):
    suspend: bool | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None


class JobStatus(Document):
    conditions: list[Condition] | None = None
    start_time: datetime | None = None


class Job(Document):
    metadata: Metadata
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.status.conditions or [] if one.type == kind and one.is_true), None)


class JobList(Document):
    items: list[Job] | None = None


class ObjectReference(Document):
    name: str = ""
    uid: str = ""


class Event(Document):
    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


class EventList(Document):
    items: list[Event] | None = None


class WorkloadStatus(Document):
    conditions: list[Condition] | None = None


class Workload(Document):
    """Kueue's view of a Job."""

    metadata: Metadata
    status: WorkloadStatus = WorkloadStatus()


class WorkloadList(Document):
    items: list[Workload] | None = None


class Problem(Document):
    """A ``Status`` object: why a request was not carried out."""

    message: str = ""
    reason: str = ""


class Version(Document):
    git_version: str = ""


class AccessStatus(Document):
    allowed: bool = False
    reason: str = ""


class AccessReview(Document):
    status: AccessStatus = AccessStatus()
