"""The engine ``sagemaker``, and what keeps a cluster of it from training."""

import json
import secrets
import time
from collections.abc import Iterator

from runs.engines.allocating import AllocatingEngine
from runs.engines.cluster_settings.settings import secret_of
from runs.engines.findings import Finding, Probe, machines, not_run, probe_of, trusted_words
from runs.engines.machine_system import JobState, MachineRequest, Origin, SystemJob, node_words, origin_of, unsubmitted
from runs.engines.refusals import SystemAway, as_sentence, asked, needed, not_taken
from runs.engines.sagemaker import reasons
from runs.engines.sagemaker.aws import Aws, AWSRefusal
from runs.engines.sagemaker.documents import TrainingJob
from runs.engines.sagemaker.settings import SageMakerSettings
from runs.models import Cluster
from trainyard.contract.base import JsonObject
from trainyard.spec.values.durations import seconds_of

NAME = "trainyard"
CHANNEL = NAME  # of the file system: SageMaker mounts it at /opt/ml/input/data/CHANNEL
START = "workers.machine.sagemaker"
HOME = "/opt/ml/trainyard"
MAX_TAG = 256
TRIAL_LIMIT_S = 570.0  # machines of AWS take minutes to start
EVERY_S = 2.0
SERVICE = "sagemaker.amazonaws.com"
RIGHTS_ADVICE = "docs/sagemaker.md has the policy that this server's credentials need."


class SageMakerEngine(AllocatingEngine):
    label = "SageMaker"
    about = "Each run is a training job, which AWS bills while it lasts. Tried against moto's server, never on AWS."
    settings_type = SageMakerSettings
    access = ("credentials", "Enter the secret of the access key anew.")

    def system(self, cluster: Cluster) -> "SageMakerSystem":
        settings = SageMakerSettings.of(cluster.settings)
        return SageMakerSystem(settings, origin_of(cluster), Aws(settings, secret_of(cluster, "secret_access_key")))

    def examine_billed(self, cluster: Cluster) -> Iterator[Finding]:
        try:
            system = self.system(cluster)
        except SystemAway:  # examine has said so
            return
        yield from system.billed_steps(probe_of(origin_of(cluster).server))


# SageMaker as a system of machines: looks for our training jobs, submits them, and stops them.


class SageMakerSystem:
    def __init__(self, settings: SageMakerSettings, origin: Origin, aws: Aws) -> None:
        self._settings, self._origin, self._aws = settings, origin, aws

    def jobs(self) -> list[SystemJob]:
        """Return the jobs that have not ended, and those whose secret is still there."""
        self._aws.begin()
        mark = self._origin.mark
        listed = asked(lambda: self._aws.open_jobs(prefix_of(mark)), "AWS did not list our jobs")
        secrets = asked(lambda: self._aws.secret_names(secrets_of(mark)), "AWS did not list our secrets")
        with_secret = {name.removeprefix(secrets_of(mark)) for name in secrets}
        attempts = {attempt_in(one.training_job_name, mark) for one in listed} | with_secret
        return [self._seen(attempt, has_secret=attempt in with_secret) for attempt in sorted(attempts)]

    def find(self, job: str) -> SystemJob | None:
        self._aws.begin()
        found = self._described(job)
        return None if found is None else reasons.job_of(found, attempt_in(job, self._origin.mark))

    def submit(self, request: MachineRequest) -> str:
        self._aws.begin()
        mark = self._origin.mark
        job = training_job_of(self._settings, request, self._origin)
        secret = secret_name_of(mark, request.attempt)
        text = json.dumps({"tokens": list(request.tokens)}, separators=(",", ":"))
        try:
            self._aws.create_secret(secret, text, tags_of(self._settings, request, self._origin))
            self._aws.create_job(job)
        except AWSRefusal as error:
            if not error.is_passing:
                self._delete_secret(secret)
            raise not_taken("SageMaker", self._origin.cluster, error, is_passing=error.is_passing) from error
        return job_name_of(mark, request.attempt)

    def cancel(self, job: str) -> None:
        self._aws.begin()
        asked(lambda: self._aws.stop_job(job), f"AWS did not stop job {job}")
        self._delete_secret(secret_name_of(self._origin.mark, attempt_in(job, self._origin.mark)))

    def _delete_secret(self, name: str) -> None:
        asked(lambda: self._aws.delete_secret(name), "AWS did not delete the join tokens")

    def _seen(self, attempt: str, *, has_secret: bool) -> SystemJob:
        name = job_name_of(self._origin.mark, attempt)
        job = self._described(name)
        if job is None:
            return unsubmitted(name, attempt)  # there is the secret alone
        if reasons.is_taken_back(job):
            self.cancel(name)  # AWS would start it again, and its tokens are used
            return SystemJob(name, attempt, JobState.OVER).ended(reasons.taken_back(job))
        return reasons.job_of(job, attempt, has_secret=has_secret)

    def _described(self, name: str) -> TrainingJob | None:
        return asked(lambda: self._aws.job(name), f"AWS did not describe job {name}")

    # Step by step, whether the cluster can run what is launched on it. AWS bills a training job, so the step that runs
    # one is done on request alone.

    def steps(self, probe: Probe) -> Iterator[Finding]:
        settings, origin, aws = self._settings, self._origin, self._aws
        with needed("credentials", "Enter an access key and its secret, or give this server a role or a profile."):
            caller = aws.caller()
        yield Finding("credentials", True, f"AWS knows us in {settings.region} as {caller.arn}.")
        aws.begin()
        with needed("SageMaker", RIGHTS_ADVICE):
            number = len(aws.open_jobs(prefix_of(origin.mark)))
        words = f"SageMaker answers and lets us list training jobs ({number} of ours are open)."
        yield Finding("SageMaker", True, words)
        yield self._secrets()
        yield self._role(caller.account)
        advice = f"`trainyard doctor --cluster {origin.cluster} --accept-cost` runs one, for some minutes of its price."
        yield Finding("job", None, f"AWS bills a short job on {machines(min(2, settings.machines))}. {advice}")

    def _secrets(self) -> Finding:
        try:
            self._aws.secret_names(secrets_of(self._origin.mark))
        except (SystemAway, AWSRefusal) as error:
            return Finding("secrets", False, as_sentence(error), RIGHTS_ADVICE)
        return Finding("secrets", True, "Secrets Manager answers and lets us list secrets; join tokens go there.")

    def _role(self, account: str) -> Finding:
        name = self._settings.role.rpartition("/")[2]
        owner, advice = self._settings.role.split(":")[4], "Change the role where the cluster is edited."
        if owner != account:
            words = f"The role belongs to account {owner} and we are in {account}"
            return Finding("role", False, f"{words}: SageMaker takes roles of its own account.", advice)
        try:
            role = self._aws.role(name)
        except (SystemAway, AWSRefusal) as error:
            if isinstance(error, AWSRefusal) and error.is_missing:
                return Finding("role", False, f"There is no role {name}.", advice)
            return Finding("role", None, f"Role {name} cannot be looked at: {as_sentence(error)}")
        if SERVICE not in json.dumps(role.assume_role_policy_document):
            advice = f"Let {SERVICE} assume it (its trust policy)."
            return Finding("role", False, f"SageMaker may not use role {name}.", advice)
        return Finding("role", True, f"SageMaker may use role {name}.")

    def billed_steps(self, probe: Probe) -> Iterator[Finding]:
        """Run a job that lasts a second, on two machines, and let each try what a node does."""
        settings, origin, aws = self._settings, self._origin, self._aws
        number = min(2, settings.machines)
        name = f"{NAME}-doctor-{secrets.token_hex(4)}"
        aws.begin()
        try:
            aws.create_job(trial_job_of(settings, name, number, [*probe, *trusted_words()], origin))
            job = _wait(aws, name)
        except (SystemAway, AWSRefusal) as error:
            yield not_run(number, as_sentence(error), RIGHTS_ADVICE)
            return
        if job is None or job.training_job_status not in reasons.OVER:
            why = "it is not there any more." if job is None else reasons.why_job_waits(job).sentence
            aws.begin()
            aws.stop_job(name)
            words = f"A short job on {machines(number)} did not end: {why}"
            yield Finding("job", False, words, "It was stopped again.")
            return
        end = reasons.end_of(job)
        if end.kind is not None:
            advice = "Do the subnets and security groups lead to this server, its Valkey, and the file system?"
            yield Finding("job", False, end.sentence, advice)
            return
        words = f"A short job ran on {machines(number)}, which reach server, Valkey and file system."
        yield Finding("job", True, words)


def _wait(aws: Aws, name: str) -> TrainingJob | None:
    """Return the job once it is over, or as it is when the time is up."""
    deadline = time.monotonic() + TRIAL_LIMIT_S
    while True:
        aws.begin()
        job = aws.job(name)
        if job is None or job.training_job_status in reasons.OVER or time.monotonic() > deadline:
            return job
        time.sleep(EVERY_S)


# The training job of one attempt, as CreateTrainingJob takes it, and its secret. Everything here is pure.
#
# The secret with the join tokens is made first, since the job's machines read it when they start. Whoever may
# describe a training job sees its environment and its arguments, so neither holds a token.


def prefix_of(mark: str) -> str:
    return f"{NAME}-{mark}-"


def job_name_of(mark: str, attempt: str) -> str:
    return f"{prefix_of(mark)}{attempt}"


def attempt_in(job: str, mark: str) -> str:
    """Return the attempt that a job's name holds; empty for a job of others."""
    return job.removeprefix(prefix_of(mark)) if job.startswith(prefix_of(mark)) else ""


def secrets_of(mark: str) -> str:
    return f"{NAME}/{mark}/"


def secret_name_of(mark: str, attempt: str) -> str:
    return f"{secrets_of(mark)}{attempt}"


def training_job_of(settings: SageMakerSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    """Return the request. Nothing in it is secret."""
    words = node_words(settings.python, request, server=origin.server, home=HOME)
    after = words.index("workers.node") + 1
    job = _job(settings, job_name_of(origin.mark, request.attempt), request.num_machines, ["node", *words[after:]])
    job["Environment"]["TRAINYARD_JOIN_SECRET"] = secret_name_of(origin.mark, request.attempt)
    if settings.cpus_per_slot:
        job["Environment"]["TRAINYARD_CORES"] = str(request.slots * settings.cpus_per_slot)
    job["Tags"] = tags_of(settings, request, origin)
    return job


def trial_job_of(settings: SageMakerSettings, name: str, number: int, words: list[str], origin: Origin) -> JsonObject:
    """Return a job in which each machine tries what a node does. ``words``: server and Valkey."""
    job = _job(settings, name, number, ["try", *words])
    job["StoppingCondition"] = {"MaxRuntimeInSeconds": 600}
    job["EnableManagedSpotTraining"] = False
    job["Tags"] = tags_of(settings, MachineRequest("", "doctor", number, 1, []), origin)
    return job


def tags_of(settings: SageMakerSettings, request: MachineRequest, origin: Origin) -> list[JsonObject]:
    ours = {
        "trainyard:cluster": origin.cluster,
        "trainyard:run": request.name,
        "trainyard:attempt": request.attempt,
        "trainyard:project": request.project,
        "trainyard:owner": request.owner,
    }
    theirs = dict(line.split("=", 1) for line in settings.tags)
    return [{"Key": name, "Value": _plain(value)} for name, value in {**theirs, **ours}.items()]


def _plain(value: str) -> str:
    """Return the value with a space where AWS takes no such character."""
    return "".join(one if one.isalnum() or one in " _.:/=+-@" else " " for one in value)[:MAX_TAG]


def _job(settings: SageMakerSettings, name: str, num_machines: int, words: list[str]) -> JsonObject:
    limits = {"MaxRuntimeInSeconds": settings.time_limit_s}
    if settings.spot:
        limits["MaxWaitTimeInSeconds"] = settings.time_limit_s + int(seconds_of(settings.spot_wait))
    files = {
        "FileSystemId": settings.file_system,
        "FileSystemType": settings.file_system_type,
        "DirectoryPath": settings.file_system_path,
        "FileSystemAccessMode": "rw",
    }
    environment = {"TRAINYARD_AWS_REGION": settings.region}
    if settings.endpoint:
        environment["TRAINYARD_AWS_ENDPOINT"] = settings.endpoint
    return {
        "TrainingJobName": name,
        "RoleArn": settings.role,
        "AlgorithmSpecification": {
            "TrainingImage": settings.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [settings.python, "-P", "-m", START],
            "ContainerArguments": words,
        },
        "InputDataConfig": [{"ChannelName": CHANNEL, "DataSource": {"FileSystemDataSource": files}}],
        "OutputDataConfig": {"S3OutputPath": settings.output},
        "ResourceConfig": {
            "InstanceType": settings.instance_type,
            "InstanceCount": num_machines,
            "VolumeSizeInGB": settings.volume_gb,
        },
        "VpcConfig": {"Subnets": list(settings.subnets), "SecurityGroupIds": list(settings.security_groups)},
        "StoppingCondition": limits,
        "EnableManagedSpotTraining": settings.spot,
        "EnableNetworkIsolation": False,  # the machines reach this server and each other
        "Environment": environment,
    }
