"""Types of AWS' answers, with the fields we read. Unknown fields are ignored."""

from datetime import datetime

import msgspec


class Document(msgspec.Struct, rename="pascal", frozen=True, kw_only=True):
    """A part of an answer."""


class Transition(Document, frozen=True):
    status: str = ""
    status_message: str = ""


class Resources(Document, frozen=True):
    instance_count: int = 1


class StoppingCondition(Document, frozen=True):
    max_runtime_in_seconds: int | None = None


class TrainingJob(Document, frozen=True):
    training_job_name: str
    training_job_status: str
    secondary_status: str = ""
    failure_reason: str = ""
    training_start_time: datetime | None = None
    secondary_status_transitions: tuple[Transition, ...] = ()
    resource_config: Resources = Resources()
    stopping_condition: StoppingCondition = StoppingCondition()

    @property
    def message(self) -> str:
        """Return what SageMaker said last."""
        return self.secondary_status_transitions[-1].status_message if self.secondary_status_transitions else ""

    def had(self, status: str) -> bool:
        return self.secondary_status == status or any(one.status == status for one in self.secondary_status_transitions)


class Page(Document, frozen=True):
    next_token: str = ""


class JobPage(Page, frozen=True):
    training_job_summaries: tuple[TrainingJob, ...] = ()


class SecretEntry(Document, frozen=True):
    name: str


class SecretPage(Page, frozen=True):
    secret_list: tuple[SecretEntry, ...] = ()


class Caller(Document, frozen=True):
    account: str
    arn: str


class Role(Document, frozen=True):
    assume_role_policy_document: dict[str, object] | str = ""


class RoleAnswer(Document, frozen=True):
    role: Role
