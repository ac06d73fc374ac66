"""The fields of a Ray cluster as a form shows them, in their order."""

from __future__ import annotations

from runs.engines.cluster_settings.fields import CHOICE, FLAG, LINES, NUMBER, SECRET, SettingField
from runs.engines.ray.settings import STRATEGIES

FIELDS = (
    SettingField(
        "address",
        "Ray's address",
        "host:6379 where this server is a machine of the Ray cluster, else ray://host:10001 (Ray Client).",
        is_needed=True,
        placeholder="ray://head:10001",
    ),
    SettingField(
        "token",
        "Ray's token",
        "Where the Ray cluster asks for one (RAY_AUTH_MODE=token).",
        SECRET,
    ),
    SettingField(
        "folder",
        "Shared folder",
        "An absolute path that all machines of the cluster share and Ray's user may write: checkpoints, what nodes "
        "print, and the nodes' own files while they are there.",
        is_needed=True,
    ),
    SettingField("machines", "Machines", "How many all runs may have at once.", NUMBER, heading="Machines of a run"),
    SettingField("slots", "Ranks on a machine", "At most; a run may ask for fewer.", NUMBER),
    SettingField("cpus_per_slot", "CPUs for a rank", "As Ray counts them.", NUMBER),
    SettingField("gpus", "A GPU for each rank", "", FLAG),
    SettingField("gpu_kind", "Kind of GPU", "Ray's accelerator type, such as A100; empty for any."),
    SettingField("memory", "Memory of a machine", "Such as 16G, as Ray counts it; empty to ask for none."),
    SettingField("resources", "Custom resources", "Of a machine, one name=amount a line.", LINES),
    SettingField(
        "strategy", "Where its machines are", "Ray's placement strategy.", CHOICE, choices=tuple(STRATEGIES.items())
    ),
    SettingField(
        "python",
        "Python",
        "The interpreter on the machines that has Trainyard; empty for the one that Ray runs on.",
        heading="Programs and addresses",
    ),
    SettingField("server", "This server", "Its address as the machines reach it; empty for PUBLIC_URL."),
    SettingField(
        "ray_python",
        "Python with Ray",
        "An interpreter on this server with the Ray and the Python version of the cluster; empty for the server's own.",
    ),
    SettingField("runtime_env", "Runtime environment", "Of Ray's actors, as JSON; empty for none."),
)
