"""Types of Kubernetes' objects, with the fields we read. Unknown fields are ignored; a list may be missing or null."""

from datetime import datetime
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Document(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """A part of an object."""


class Items(Document, Generic[T], frozen=True):
    items: list[T] | None = None


class Metadata(Document, frozen=True):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: datetime | None = None  # of a pod: when its grace ends

    def label(self, name: str) -> str:
        return (self.labels or {}).get(name, "")


class Condition(Document, frozen=True):
    """``status`` is "True", "False" or "Unknown"."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


class Notice(Document, frozen=True):
    """What Kubernetes says: of an event, why a container waits, or why a request was not carried out."""

    reason: str = ""
    message: str = ""


class Running(Document, frozen=True):
    started_at: datetime | None = None


class Terminated(Document, frozen=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Document, frozen=True):
    waiting: Notice | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Document, frozen=True):
    name: str = ""
    state: ContainerState = ContainerState()


class Status(Document, frozen=True):
    conditions: list[Condition] | None = None


class PodStatus(Status, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodSpec(Document, frozen=True):
    node_name: str = ""


class Pod(Document, frozen=True):
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


class JobSpec(Document, frozen=True):
    suspend: bool | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None


class JobStatus(Status, frozen=True):
    start_time: datetime | None = None


class Job(Document, frozen=True):
    metadata: Metadata
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.status.conditions or [] if one.type == kind and one.is_true), None)


class Workload(Document, frozen=True):
    """Kueue's view of a Job."""

    metadata: Metadata
    status: Status = Status()


class Version(Document, frozen=True):
    git_version: str = ""


class AccessStatus(Document, frozen=True):
    allowed: bool = False
    reason: str = ""


class Access(Document, frozen=True):
    status: AccessStatus = AccessStatus()
