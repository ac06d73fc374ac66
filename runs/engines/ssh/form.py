"""The fields of an SSH cluster as a form shows them, in their order."""

from __future__ import annotations

from dataclasses import replace

from runs.engines.cluster_settings.fields import LINES, SettingField
from runs.engines.openssh.identity import KEY_FIELDS

FIELDS = (
    SettingField(
        "hosts",
        "Hosts",
        "One a line: user@host:port, how many ranks it takes, how many of its cores they may use if not all, the kind "
        "of its GPUs if it has some, and its host key as ssh-keyscan prints it. Compare the key with what the host's "
        "administrator says.",
        LINES,
        is_needed=True,
        heading="Hosts",
        placeholder="train@gpu1.example.org slots=8 gpu=a100 ssh-ed25519 AAAA…",
    ),
    SettingField(
        "folder",
        "Folder",
        "An absolute path on each host that the user may write; nodes keep their files there while they run.",
        is_needed=True,
    ),
    SettingField(
        "checkpoints",
        "Folder of checkpoints",
        "A path that all hosts share, so that a run can go on on another one; empty for one of each host's own.",
    ),
    SettingField("python", "Python", "The interpreter on the hosts that has Trainyard; empty for this server's path."),
    SettingField("server", "This server", "Its address as the hosts reach it; empty for PUBLIC_URL."),
    replace(KEY_FIELDS[0], heading="The server's key"),
    *KEY_FIELDS[1:],
)
