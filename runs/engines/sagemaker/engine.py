"""The engine ``sagemaker``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings.secrets import SecretUnreadable, secret_of
from runs.engines.findings import Finding, Probe, probe_of
from runs.engines.machine_system import MachineRequest, Origin, SystemAway, SystemJob, SystemRefused, origin_of
from runs.engines.sagemaker.aws import Aws, AWSRefusal
from runs.engines.sagemaker.doctor import examine, examine_billed
from runs.engines.sagemaker.documents import TrainingJob
from runs.engines.sagemaker.reasons import ended, is_taken_back, job_of, not_made, taken_back
from runs.engines.sagemaker.request import (
    attempt_in,
    job_name_of,
    prefix_of,
    secret_name_of,
    secret_text_of,
    secrets_of,
    tags_of,
    training_job_of,
)
from runs.engines.sagemaker.settings import SageMakerSettings
from runs.models import Cluster

T = TypeVar("T")


class SageMakerEngine(AllocatingEngine):
    label = "SageMaker"
    about = "Each run is a training job, which AWS bills while it lasts. Tried against moto's server, never on AWS."
    settings_type = SageMakerSettings
    access = ("credentials", "Enter the secret of the access key anew.")

    def system(self, cluster: Cluster) -> SageMakerSystem:
        settings = SageMakerSettings.of(cluster.settings)
        return SageMakerSystem(settings, origin_of(cluster), aws_of(cluster, settings))

    def examine_billed(self, cluster: Cluster) -> Iterator[Finding]:
        try:
            system = self.system(cluster)
        except SystemAway:  # examine has said so
            return
        yield from system.billed_steps(probe_of(origin_of(cluster).server))


def aws_of(cluster: Cluster, settings: SageMakerSettings) -> Aws:
    """Raises SystemAway."""
    try:
        return Aws(settings, secret_of(cluster, "secret_access_key"))
    except SecretUnreadable as error:
        raise SystemAway(str(error)) from error


# SageMaker as a system of machines: looks for our training jobs, submits them, and stops them.


class SageMakerSystem:
    def __init__(self, settings: SageMakerSettings, origin: Origin, aws: Aws) -> None:
        self._settings = settings
        self._origin = origin
        self._aws = aws

    def steps(self, probe: Probe) -> Iterator[Finding]:
        return examine(self._settings, self._origin, self._aws)

    def billed_steps(self, probe: Probe) -> Iterator[Finding]:
        return examine_billed(self._settings, self._origin, self._aws, probe)

    def jobs(self) -> list[SystemJob]:
        """Return the jobs that have not ended, and those whose secret is still there."""
        self._aws.begin()
        mark = self._origin.mark
        listed = self._asked(lambda: self._aws.open_jobs(prefix_of(mark)), "list our jobs")
        secrets = self._asked(lambda: self._aws.secret_names(secrets_of(mark)), "list our secrets")
        with_secret = {name.removeprefix(secrets_of(mark)) for name in secrets}
        attempts = {attempt_in(one.training_job_name, mark) for one in listed} | with_secret
        return [self._seen(attempt, has_secret=attempt in with_secret) for attempt in sorted(attempts)]

    def find(self, job: str) -> SystemJob | None:
        self._aws.begin()
        found = self._described(job)
        return None if found is None else job_of(found, attempt_in(job, self._origin.mark))

    def submit(self, request: MachineRequest) -> str:
        self._aws.begin()
        mark = self._origin.mark
        job = training_job_of(self._settings, request, self._origin)
        secret = secret_name_of(mark, request.attempt)
        try:
            self._aws.create_secret(secret, secret_text_of(request), tags_of(self._settings, request, self._origin))
            self._create(job)
        except AWSRefusal as error:
            where = f"cluster {self._origin.cluster}"
            if error.is_passing:
                raise SystemAway(f"SageMaker took no job on {where}: {error} ({error.code}).") from error
            self._asked(lambda: self._aws.delete_secret(secret), "delete the join tokens")
            advice = f"`trainyard doctor --cluster {self._origin.cluster}` looks for the reason. Then restart the run."
            raise SystemRefused(f"SageMaker refused the job: {error} ({error.code}). {advice}") from error
        return job_name_of(mark, request.attempt)

    def cancel(self, job: str) -> None:
        self._aws.begin()
        secret = secret_name_of(self._origin.mark, attempt_in(job, self._origin.mark))
        self._asked(lambda: self._aws.stop_job(job), f"stop job {job}")
        self._asked(lambda: self._aws.delete_secret(secret), "delete the join tokens")

    def _create(self, document: dict[str, object]) -> None:
        """Make the job. One of this name is the same: an earlier submission has made it."""
        try:
            self._aws.create_job(document)
        except AWSRefusal as error:
            if error.code != "ResourceInUse":
                raise

    def _seen(self, attempt: str, *, has_secret: bool) -> SystemJob:
        name = job_name_of(self._origin.mark, attempt)
        job = self._described(name)
        if job is None:
            return not_made(name, attempt)
        if is_taken_back(job):
            self.cancel(name)  # AWS would start it again, and its tokens are used
            return ended(name, attempt, taken_back(job))
        return job_of(job, attempt, has_secret=has_secret)

    def _described(self, name: str) -> TrainingJob | None:
        return self._asked(lambda: self._aws.job(name), f"describe job {name}")

    def _asked(self, call: Callable[[], T], doing: str) -> T:
        """Do the call. A refusal becomes SystemAway: it is tried again."""
        try:
            return call()
        except AWSRefusal as error:
            raise SystemAway(f"AWS did not {doing}: {error} ({error.code}).") from error
