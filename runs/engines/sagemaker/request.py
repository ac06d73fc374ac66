"""The training job of one attempt, as CreateTrainingJob takes it, and its secret. Everything here is pure.

The secret with the join tokens is made first, since the job's machines read it when they start. Whoever may describe a
training job sees its environment and its arguments, so neither holds a token.
"""

import json

from runs.engines.machine_system import MachineRequest, Origin
from runs.engines.node_command import node_words
from runs.engines.sagemaker.settings import SageMakerSettings
from trainyard.contract.base import JsonObject

NAME = "trainyard"
CHANNEL = NAME  # of the file system: SageMaker mounts it at /opt/ml/input/data/CHANNEL
START = "workers.machine.sagemaker"
HOME = "/opt/ml/trainyard"
MAX_TAG = 256


def prefix_of(mark: str) -> str:
    """Return what the names of all jobs of a cluster begin with."""
    return f"{NAME}-{mark}-"


def job_name_of(mark: str, attempt: str) -> str:
    return f"{prefix_of(mark)}{attempt}"


def attempt_in(job: str, mark: str) -> str:
    """Return the attempt that a job's name holds; empty for a job of others."""
    return job.removeprefix(prefix_of(mark)) if job.startswith(prefix_of(mark)) else ""


def secrets_of(mark: str) -> str:
    """Return what the names of all secrets of a cluster begin with."""
    return f"{NAME}/{mark}/"


def secret_name_of(mark: str, attempt: str) -> str:
    return f"{secrets_of(mark)}{attempt}"


def secret_text_of(request: MachineRequest) -> str:
    return json.dumps({"tokens": list(request.tokens)}, separators=(",", ":"))


def training_job_of(settings: SageMakerSettings, request: MachineRequest, origin: Origin) -> JsonObject:
    """Return the request. Nothing in it is secret."""
    words = node_words(settings.python, attempt=request.attempt, server=origin.server, home=HOME, slots=request.slots)
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
    request = MachineRequest("", "doctor", number, 1, [])
    job["Tags"] = tags_of(settings, request, origin)
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
        limits["MaxWaitTimeInSeconds"] = settings.time_limit_s + settings.spot_wait_s
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
        "InputDataConfig": [{"ChannelName": CHANNEL, "DataSource": {"FileSystemDataSource": _file_system(settings)}}],
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


def _file_system(settings: SageMakerSettings) -> JsonObject:
    return {
        "FileSystemId": settings.file_system,
        "FileSystemType": settings.file_system_type,
        "DirectoryPath": settings.file_system_path,
        "FileSystemAccessMode": "rw",
    }
