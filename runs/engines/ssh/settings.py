"""Settings of a cluster of engine ``ssh``, and the values it refuses."""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from runs.engines.cluster_settings import checks, settings
from runs.engines.cluster_settings.settings import Guarded, Offer, Settings, field
from runs.engines.openssh.identity import key_field, key_file_field, of_key
from runs.engines.openssh.target import Target, read_address, read_host_key
from trainyard.contract.limits import MAX_SLOTS

MAX_HOSTS = 128
MAX_CORES = 4096
GPU = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
LINE_WORDS = "user@host:port slots=N cores=N gpu=KIND TYPE KEY, of which port, slots, cores and gpu may be left out"


@dataclass(frozen=True)
class Host:
    target: Target
    slots: int = 1
    gpu: str = ""
    cores: int | None = None  # that ranks may use together; None for all of them

    @property
    def label(self) -> str:
        return self.target.label


def read_host(line: str) -> Host:
    """Return the host of one line. Raises ValueError."""
    words = line.split()
    if not words:
        raise ValueError(f"a line as {LINE_WORDS}, and not an empty one")
    user, host, port = read_address(words[0])
    values = {"slots": "1", "cores": "", "gpu": ""}
    rest = words[1:]
    while rest and "=" in rest[0] and rest[0].partition("=")[0] in values:
        name, _, value = rest.pop(0).partition("=")
        values[name] = value
    slots, cores, gpu = values["slots"], values["cores"], values["gpu"]
    if not _is_number(slots, MAX_SLOTS):
        raise ValueError(f"slots from 1 to {MAX_SLOTS} for {words[0]}, not {slots[:20]!r}")
    if cores and not _is_number(cores, MAX_CORES):
        raise ValueError(f"cores from 1 to {MAX_CORES} for {words[0]}, not {cores[:20]!r}")
    if gpu and not GPU.fullmatch(gpu):
        raise ValueError(f"a kind of GPU such as a100 for {words[0]}, not {gpu[:40]!r}")
    if len(rest) < 2:
        raise ValueError(f"the host key of {words[0]} at the end of its line, as `ssh-keyscan` prints it")
    return Host(Target(host, user, read_host_key(" ".join(rest)), port), int(slots), gpu, int(cores) if cores else None)


def _is_number(text: str, largest: int) -> bool:
    return len(text) <= 6 and text.isascii() and text.isdecimal() and 1 <= int(text) <= largest


def _hosts(lines: list[str]) -> str:
    if not 1 <= len(lines) <= MAX_HOSTS:
        return f"from 1 to {MAX_HOSTS} lines, each as {LINE_WORDS}; not {len(lines)}"
    return next(filter(None, map(checks.read_by(read_host), lines)), "")


def _folder(value: str) -> str:
    return checks.path(value) if value else "a folder on each host is needed"


@dataclass(frozen=True, kw_only=True)
class SshSettings(Settings):
    hosts: list[str] = field(
        "Hosts",
        "One a line: user@host:port, how many ranks it takes, how many of its cores they may use if not all, the kind "
        "of its GPUs if it has some, and its host key as ssh-keyscan prints it. Compare the key with what the host's "
        "administrator says.",
        _hosts,
        default=[],
        is_needed=True,
        heading="Hosts",
        placeholder="train@gpu1.example.org slots=8 gpu=a100 ssh-ed25519 AAAA…",
    )
    folder: str = field(
        "Folder",
        "An absolute path on each host that the user may write; nodes keep their files there while they run.",
        _folder,
        is_needed=True,
    )
    checkpoints: str = field(
        "Folder of checkpoints",
        "A path that all hosts share, so that a run can go on on another one; empty for one of each host's own.",
        checks.path,
    )
    python: str = settings.python("the hosts")
    server: str = settings.server("the hosts")
    ssh_key: ClassVar[str] = key_field(heading="The server's key")
    ssh_key_file: str = key_file_field()

    @property
    def all_hosts(self) -> list[Host]:
        return [read_host(line) for line in self.hosts]

    @property
    def interpreter(self) -> str:
        return self.python or sys.executable

    def problems(self) -> dict[str, str]:
        labels = [host.label for host in self.all_hosts]
        twice = next((label for label in labels if labels.count(label) > 1), "")
        return {"hosts": f"each host once, and {twice} stands there twice"} if twice else {}

    def offers(self) -> list[Offer]:
        kinds = Counter((host.slots, host.gpu) for host in self.all_hosts)
        return [Offer(number, slots, gpu) for (slots, gpu), number in sorted(kinds.items())]

    def guarded(self) -> Guarded:
        return of_key(self.ssh_key_file, "hosts", [host.target for host in self.all_hosts])
