"""What a cluster of engine ``sagemaker`` must know, and what it refuses."""

from __future__ import annotations

import re

import msgspec

from runs.engines.cluster_settings.checks import Check, checked, duration, lines, number, program, server, text
from trainyard.contract.base import JsonObject, WireStruct, convert
from trainyard.contract.limits import MAX_SLOTS
from trainyard.spec.values.durations import seconds_of

MAX_MACHINES = 200  # their join tokens fit into one secret
MAX_CPUS = 1_024
MAX_VOLUME_GB = 16_384
MAX_TAGS = 40  # of 50 that AWS takes; some are ours
MAX_SUBNETS, MAX_GROUPS = 16, 5
LEAST_LIMIT_S = 600.0  # a job is given 120 s of it to save
MAX_LIMIT_S = 28 * 86_400.0
DAY = "24h"
REGION = re.compile(r"[a-z]{2,4}(-[a-z]+){1,3}-[0-9]{1,2}")
ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,512}")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
INSTANCE = re.compile(r"ml\.[a-z0-9-]{1,20}\.[a-z0-9]{1,20}")
GPU = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
GROUP = re.compile(r"sg-[0-9a-f]{8,17}")
FILE_SYSTEM = re.compile(r"fs-[0-9a-f]{8,17}")
FOLDER = re.compile(r"/[A-Za-z0-9._/-]{0,200}")
BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()/-]{0,400})?")
ACCESS_KEY = re.compile(r"[A-Z0-9]{16,128}")
TAG = re.compile(r"[A-Za-z0-9_.:/+@ -]{1,128}=[A-Za-z0-9_.:/=+@ -]{0,256}")
FILE_SYSTEMS = {"EFS": "EFS", "FSxLustre": "FSx for Lustre"}


class SageMakerSettings(WireStruct, kw_only=True):
    """The settings of a cluster."""

    region: str = ""
    role: str = ""  # ARN of the role that the jobs have
    image: str = ""  # with Trainyard's extras ``node`` and ``sagemaker`` and PyTorch
    python: str = "python3"  # the interpreter in the image that has Trainyard
    instance_type: str = ""
    machines: int = 2  # of all runs together, at most
    slots: int = 1  # ranks on each machine, at most
    gpu: str = ""  # the kind of its GPUs, of which each rank gets one; empty for machines that are used without
    cpus_per_slot: int = 0  # that each rank may use; 0 for the machine's, shared
    volume_gb: int = 30  # of each machine's own disk
    subnets: list[str] = msgspec.field(default_factory=list)
    security_groups: list[str] = msgspec.field(default_factory=list)
    file_system: str = ""  # where checkpoints are
    file_system_type: str = "EFS"
    file_system_path: str = "/"
    output: str = ""  # an S3 address that SageMaker asks for; nodes send their files to the server
    time_limit: str = DAY  # of a job
    spot: bool = False
    spot_wait: str = "1h"  # how long a job may wait for spot machines
    tags: list[str] = msgspec.field(default_factory=list)  # name=value
    server: str = ""  # this server's address as the machines reach it
    access_key_id: str = ""  # empty for what boto3 finds by itself
    endpoint: str = ""  # in the place of AWS' own addresses

    @property
    def time_limit_s(self) -> int:
        return int(seconds_of(self.time_limit))

    @property
    def spot_wait_s(self) -> int:
        return int(seconds_of(self.spot_wait))


def settings_of(document: JsonObject) -> SageMakerSettings:
    """Return settings as they are kept."""
    return convert(document, SageMakerSettings)


def checked_settings(document: JsonObject) -> JsonObject:
    """Return the settings with their defaults. Raises SettingsError."""
    return checked(SageMakerSettings, document, CHECKS, "SageMaker", _problems_between)


def _problems_between(settings: SageMakerSettings) -> dict[str, str]:
    names = [one.partition("=")[0] for one in settings.tags]
    twice = next((name for name in names if names.count(name) > 1), "")
    return {"tags": f"each name once, and {twice!r} stands there twice"} if twice else {}


def _tags(values: list[str]) -> str:
    if problem := lines(TAG, "name=value", most=MAX_TAGS)(values):
        return problem
    ours = next((value for value in values if value.lower().startswith(("aws:", "trainyard:"))), None)
    return "" if ours is None else f"names that are neither AWS' nor ours, not {ours[:100]!r}"


def _file_system_type(value: str) -> str:
    return "" if value in FILE_SYSTEMS else f"one of {', '.join(FILE_SYSTEMS)}, not {value[:100]!r}"


CHECKS: dict[str, Check] = {
    "region": text(REGION, "a region such as eu-central-1", is_needed=True),
    "role": text(ROLE, "the ARN of a role such as arn:aws:iam::123456789012:role/training", is_needed=True),
    "image": text(IMAGE, "an image of a registry that the role may read", is_needed=True),
    "python": program,
    "instance_type": text(INSTANCE, "an instance type such as ml.p4d.24xlarge", is_needed=True),
    "machines": number(1, MAX_MACHINES),
    "slots": number(1, MAX_SLOTS),
    "gpu": text(GPU, "a kind of GPU such as A100"),
    "cpus_per_slot": number(0, MAX_CPUS),
    "volume_gb": number(1, MAX_VOLUME_GB),
    "subnets": lines(SUBNET, "a subnet such as subnet-0123456789abcdef0", least=1, most=MAX_SUBNETS),
    "security_groups": lines(GROUP, "a security group such as sg-0123456789abcdef0", least=1, most=MAX_GROUPS),
    "file_system": text(FILE_SYSTEM, "a file system such as fs-0123456789abcdef0", is_needed=True),
    "file_system_type": _file_system_type,
    "file_system_path": text(FOLDER, "a folder of the file system such as /trainyard", is_needed=True),
    "output": text(BUCKET, "an S3 address such as s3://bucket/trainyard", is_needed=True),
    "time_limit": duration(LEAST_LIMIT_S, MAX_LIMIT_S, is_needed=True),
    "spot_wait": duration(0, MAX_LIMIT_S, is_needed=True),
    "tags": _tags,
    "server": server,
    "access_key_id": text(ACCESS_KEY, "the id of an access key"),
    "endpoint": server,
}
