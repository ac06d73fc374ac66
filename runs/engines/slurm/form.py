"""The fields of a Slurm cluster as a form shows them, in their order."""

from __future__ import annotations

from runs.engines.cluster_settings.fields import LINES, NUMBER, SettingField
from runs.engines.openssh.identity import KEY_FIELDS

FIELDS = (
    SettingField(
        "folder",
        "Shared folder",
        "An absolute path that all machines of the cluster share and the jobs' user may write: checkpoints, output of "
        "jobs, and the nodes' own files while they are there.",
        is_needed=True,
        heading="Resources",
    ),
    SettingField("machines", "Machines", "How many all runs may have at once.", NUMBER),
    SettingField("slots", "Ranks on a machine", "At most; a run may ask for fewer.", NUMBER),
    SettingField("cpus_per_slot", "Cores for a rank", "", NUMBER),
    SettingField("gres", "Generic resource", "Of which each rank gets one, such as gpu or gpu:a100; empty for CPUs."),
    SettingField("memory", "Memory of a machine", "Such as 16G; empty for the partition's default."),
    SettingField("partition", "Partition", "Empty for Slurm's default.", heading="Queue"),
    SettingField("account", "Account", "Which Slurm charges; empty for the user's default."),
    SettingField("qos", "QOS", "The quality of service of its jobs; empty for the account's default."),
    SettingField(
        "time_limit",
        "Time limit of a job",
        "Such as 4h. A run that needs longer saves a checkpoint, ends, and goes on in another job.",
    ),
    SettingField("notice", "Notice", "How long before that limit its ranks are asked to save and end, such as 2m."),
    SettingField(
        "options",
        "More options",
        "Of sbatch, one name=value a line, such as constraint=ib or exclude=c7. These, the "
        "account, the partition and the QOS may have fields that each run fills in: {project}, {owner}, {run}, "
        "{cluster}, {attempt}, {nodes}, {slots}, as in wckey={project}.",
        LINES,
        placeholder="name=value, one a line",
    ),
    SettingField(
        "modules",
        "Modules",
        "Environment modules that a job loads before its nodes start, one a line.",
        LINES,
        placeholder="cuda/12.4",
    ),
    SettingField(
        "python",
        "Python",
        "The interpreter on the machines that has Trainyard; empty for this server's path.",
        heading="Paths and addresses",
    ),
    SettingField("server", "This server", "Its address as the machines reach it; empty for PUBLIC_URL."),
    SettingField("slurm_conf", "slurm.conf", "Its path where Slurm's programs run; empty for Slurm's default."),
    SettingField(
        "ssh_host",
        "Host",
        "Of a login node, where this server has no Slurm itself: its programs are run there over SSH.",
        heading="Login node",
    ),
    SettingField("ssh_port", "Port", "", NUMBER),
    SettingField("ssh_user", "User", "Who submits the jobs there."),
    SettingField(
        "ssh_host_key",
        "Host key",
        "As ssh-keyscan prints it, such as ssh-ed25519 AAAA…; compare it with what its administrator says.",
    ),
    *KEY_FIELDS,
)
