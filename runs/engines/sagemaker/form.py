"""The fields of a SageMaker cluster as a form shows them, in their order."""

from __future__ import annotations

from runs.engines.cluster_settings.fields import CHOICE, FLAG, LINES, NUMBER, SECRET, SettingField
from runs.engines.sagemaker.settings import FILE_SYSTEMS

SECRET_NAME = "secret_access_key"
FIELDS = (
    SettingField("region", "Region", "Such as eu-central-1.", is_needed=True, heading="AWS"),
    SettingField("role", "Role of the jobs", "Its ARN. It may read the image and the join tokens.", is_needed=True),
    SettingField("access_key_id", "Access key", "Empty for what boto3 finds on this server: a role, a profile."),
    SettingField(SECRET_NAME, "Its secret", "It is kept locked and never shown.", SECRET),
    SettingField("endpoint", "Endpoint", "In the place of AWS' own addresses; empty for those."),
    SettingField("server", "This server", "Its address as the machines reach it; empty for PUBLIC_URL."),
    SettingField(
        "image",
        "Image",
        "With Trainyard's extras node and sagemaker and PyTorch.",
        is_needed=True,
        heading="Machines of a training job",
    ),
    SettingField("python", "Python", "The interpreter in the image that has Trainyard.", is_needed=True),
    SettingField("instance_type", "Instance type", "Such as ml.p4d.24xlarge.", is_needed=True),
    SettingField("machines", "Machines", "How many all runs may have at once.", NUMBER),
    SettingField("slots", "Ranks on a machine", "At most; a run may ask for fewer.", NUMBER),
    SettingField("gpu", "Kind of GPU", "Each rank gets one, such as A100; empty for CPUs."),
    SettingField("cpus_per_slot", "Cores for a rank", "0 for the machine's cores, shared by its ranks.", NUMBER),
    SettingField("volume_gb", "Disk of a machine", "In GB.", NUMBER),
    SettingField(
        "subnets",
        "Subnets",
        "One a line. From there the machines reach this server and its Valkey.",
        LINES,
        is_needed=True,
        heading="Network and storage",
    ),
    SettingField("security_groups", "Security groups", "One a line. They let machines of a job reach each other.",
                 LINES, is_needed=True),
    SettingField("file_system", "File system", "Its id; checkpoints go there.", is_needed=True),
    SettingField("file_system_type", "Its kind", "", CHOICE, choices=tuple(FILE_SYSTEMS.items())),
    SettingField("file_system_path", "Its folder", "Such as /trainyard.", is_needed=True),
    SettingField("output", "S3 address", "SageMaker asks for one, such as s3://bucket/trainyard.", is_needed=True),
    SettingField(
        "time_limit",
        "Time limit of a job",
        "Such as 24h. A run that needs longer saves a checkpoint, ends, and goes on in another job.",
        is_needed=True,
        heading="Time and cost",
    ),
    SettingField("spot", "Spot machines", "Cheaper, and taken back at any time: the run then goes on in another job.",
                 FLAG),
    SettingField("spot_wait", "Wait for spot machines", "How long a job may wait for them, such as 1h.",
                 is_needed=True),
    SettingField("tags", "Tags", "One a line: name=value.", LINES),
)  # fmt: skip
