"""Settings of a cluster of engine ``sagemaker``, and the values it refuses."""

import re
from dataclasses import dataclass
from typing import ClassVar

from runs.engines.cluster_settings import checks, settings
from runs.engines.cluster_settings.settings import SECRET, Guarded, Offer, Places, Settings, field
from trainyard.spec.values.durations import seconds_of

MAX_MACHINES = 200  # their join tokens fit into one secret
MAX_VOLUME_GB = 16_384
MAX_TAGS = 40  # of 50 that AWS takes; some are ours
MAX_SUBNETS, MAX_GROUPS = 16, 5
LEAST_LIMIT_S = 600.0  # a job is given 120 s of it to save
MAX_LIMIT_S = 28 * 86_400.0
MAX_SECRET = 200
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


def _tags(values: list[str]) -> str:
    if problem := checks.lines(TAG, "name=value", most=MAX_TAGS)(values):
        return problem
    ours = next((value for value in values if value.lower().startswith(("aws:", "trainyard:"))), None)
    return "" if ours is None else f"names that are neither AWS' nor ours, not {ours[:100]!r}"


def _secret(value: str) -> str:
    is_fine = len(value) <= MAX_SECRET and value.isascii() and value.isprintable()
    return "" if is_fine else "the secret of an access key, as AWS shows it once"


@dataclass(frozen=True, kw_only=True)
class SageMakerSettings(Settings):
    region: str = field(
        "Region",
        "Such as eu-central-1.",
        checks.text(REGION, "a region such as eu-central-1"),
        is_needed=True,
        heading="AWS",
    )
    role: str = field(
        "Role of the jobs",
        "Its ARN. It may read the image and the join tokens.",
        checks.text(ROLE, "the ARN of a role such as arn:aws:iam::123456789012:role/training"),
        is_needed=True,
    )
    access_key_id: str = field(
        "Access key",
        "Empty for what boto3 finds on this server: a role, a profile.",
        checks.text(ACCESS_KEY, "the id of an access key"),
    )
    secret_access_key: ClassVar[str] = field("Its secret", "Kept locked and never shown.", _secret, kind=SECRET)
    endpoint: str = field("Endpoint", "In the place of AWS' own addresses; empty for those.", checks.server)
    server: str = settings.server()
    image: str = field(
        "Image",
        "With Trainyard's extras node and sagemaker and PyTorch.",
        checks.text(IMAGE, "an image of a registry that the role may read"),
        is_needed=True,
        heading="Machines of a training job",
    )
    python: str = settings.python_of_image()
    instance_type: str = field(
        "Instance type",
        "Such as ml.p4d.24xlarge.",
        checks.text(INSTANCE, "an instance type such as ml.p4d.24xlarge"),
        is_needed=True,
    )
    machines: int = settings.machines(MAX_MACHINES)
    slots: int = settings.slots()
    gpu: str = field(
        "Kind of GPU",
        "Each rank gets one, such as A100; empty for CPUs.",
        checks.text(GPU, "a kind of GPU such as A100"),
    )
    cpus_per_slot: int = field(
        "Cores for a rank",
        "0 for the machine's cores, shared by its ranks.",
        checks.number(0, checks.MAX_CPUS),
        default=0,
    )
    volume_gb: int = field("Disk of a machine", "In GB.", checks.number(1, MAX_VOLUME_GB), default=30)
    subnets: list[str] = field(
        "Subnets",
        "One a line. From there the machines reach this server and its Valkey.",
        checks.lines(SUBNET, "a subnet such as subnet-0123456789abcdef0", least=1, most=MAX_SUBNETS),
        default=[],
        is_needed=True,
        heading="Network and storage",
    )
    security_groups: list[str] = field(
        "Security groups",
        "One a line. They let machines of a job reach each other.",
        checks.lines(GROUP, "a security group such as sg-0123456789abcdef0", least=1, most=MAX_GROUPS),
        default=[],
        is_needed=True,
    )
    file_system: str = field(
        "File system",
        "Its id; checkpoints go there.",
        checks.text(FILE_SYSTEM, "a file system such as fs-0123456789abcdef0"),
        is_needed=True,
    )
    file_system_type: str = field("Its kind", default="EFS", choices=FILE_SYSTEMS)
    file_system_path: str = field(
        "Its folder",
        "Such as /trainyard.",
        checks.text(FOLDER, "a folder of the file system such as /trainyard"),
        default="/",
        is_needed=True,
    )
    output: str = field(
        "S3 address",
        "SageMaker asks for one, such as s3://bucket/trainyard.",  # nodes send their files to the server
        checks.text(BUCKET, "an S3 address such as s3://bucket/trainyard"),
        is_needed=True,
    )
    time_limit: str = settings.time_limit(
        checks.duration(LEAST_LIMIT_S, MAX_LIMIT_S), "24h", is_needed=True, heading="Time and cost"
    )
    spot: bool = field(
        "Spot machines", "Cheaper, and taken back at any time: then the run goes on in another.", default=False
    )
    spot_wait: str = field(
        "Wait for spot machines",
        "How long a job may wait for them, such as 1h.",
        checks.duration(0, MAX_LIMIT_S),
        default="1h",
        is_needed=True,
    )
    tags: list[str] = field("Tags", "One a line: name=value.", _tags, default=[])

    @property
    def time_limit_s(self) -> int:
        return int(seconds_of(self.time_limit))

    def problems(self) -> dict[str, str]:
        names = [one.partition("=")[0] for one in self.tags]
        twice = next((name for name in names if names.count(name) > 1), "")
        return {"tags": f"each name once, and {twice!r} stands there twice"} if twice else {}

    def offers(self) -> list[Offer]:
        return [Offer(self.machines, self.slots, self.gpu)]

    def guarded(self) -> Guarded:
        """The secret signs requests; without one they are signed with what boto3 finds on this server."""
        places = Places({self.endpoint or self.region})
        identity = "" if self.access_key_id else "access_key_id"
        return Guarded({"endpoint": self.endpoint}, {"secret_access_key": places}, identity)
