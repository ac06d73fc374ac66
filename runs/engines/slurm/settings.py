"""What a cluster of engine ``slurm`` must know, and what it refuses. Everything becomes a word of ``sbatch``'s argument
list or is quoted in the job's script; no value may hold a line break."""

from __future__ import annotations

import re
import sys

import msgspec

from runs.engines.cluster_settings import checks
from runs.engines.cluster_settings.checks import Check
from runs.engines.openssh.identity import key_file_problem
from runs.engines.openssh.target import (
    DEFAULT_PORT,
    USER,
    Target,
    host_key_problem,
    host_problem,
    read_host_key,
)
from runs.engines.slurm.template import template_problem, without_fields
from trainyard.contract.base import JsonObject, WireStruct, convert
from trainyard.contract.limits import MAX_SLOTS
from trainyard.spec.values.durations import seconds_of

MAX_MACHINES = 512
MAX_CPUS = 1_024
LEAST_LIMIT_S = 60.0
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,59}")
GRES = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,29}(:[A-Za-z0-9_.-]{1,30})?")
MEMORY = re.compile(r"[1-9][0-9]{0,8}[KMGT]?")
OPTION = re.compile(r"[A-Za-z0-9_][\w.,:;@%&|()\[\]*+/= -]{0,199}", re.ASCII)
# Options of sbatch that a site may need. Others would change what we ask for, whose job it is, or what it runs.
OPTIONS = frozenset(
    {
        "batch", "begin", "clusters", "constraint", "contiguous", "core-spec", "cores-per-socket", "cpu-freq",
        "deadline", "distribution", "exclude", "exclusive", "gpu-bind", "gpu-freq", "hint", "licenses", "mail-type",
        "mail-user", "mem-per-cpu", "mincpus", "network", "nice", "nodelist", "power", "prefer", "priority",
        "reservation", "sockets-per-node", "spread-job", "switches", "thread-spec", "threads-per-core", "tmp",
        "wait-all-nodes", "wckey",
    }
)  # fmt: skip
MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}")
MAX_MODULES = 50
FLAGS = frozenset({"contiguous", "exclusive", "spread-job"})  # which need no value


class SlurmSettings(WireStruct, kw_only=True):
    """The settings of a cluster. Empty texts leave the choice to Slurm."""

    folder: str = ""  # which the server need not see, but all machines of the cluster must
    machines: int = 2  # of all runs together, at most
    slots: int = 1  # ranks on each machine, at most
    cpus_per_slot: int = 1
    gres: str = ""  # a generic resource of which each rank gets one, such as gpu or gpu:a100
    memory: str = ""  # of each machine, such as 16G
    # These three and the options may have fields that each run fills in: see template.
    partition: str = ""
    account: str = ""
    qos: str = ""
    time_limit: str = ""  # of a job, such as 4h
    notice: str = "2m"  # how long before that limit the ranks are asked to save and end
    options: list[str] = msgspec.field(default_factory=list)  # more of sbatch's, each name=value
    modules: list[str] = msgspec.field(default_factory=list)  # environment modules that a job loads first
    python: str = ""  # the interpreter on the machines that has Trainyard
    server: str = ""  # this server's address as the machines reach it
    slurm_conf: str = ""  # where Slurm's programs run; empty for its default
    ssh_host: str = ""  # a login node, on which Slurm's programs are run; empty where this server has them itself
    ssh_port: int = DEFAULT_PORT
    ssh_user: str = ""
    ssh_host_key: str = ""
    ssh_key_file: str = ""  # below the server's home; empty for the uploaded key

    @property
    def interpreter(self) -> str:
        return self.python or sys.executable

    @property
    def login(self) -> Target | None:
        """The login node, None where this server has Slurm's programs itself."""
        if not self.ssh_host:
            return None
        return Target(self.ssh_host, self.ssh_user, read_host_key(self.ssh_host_key), self.ssh_port)

    @property
    def time_limit_s(self) -> float | None:
        return seconds_of(self.time_limit) if self.time_limit else None

    @property
    def notice_s(self) -> int:
        return int(seconds_of(self.notice)) if self.notice else 0


def settings_of(document: JsonObject) -> SlurmSettings:
    """Return settings as they are kept."""
    return convert(document, SlurmSettings)


def checked_settings(document: JsonObject) -> JsonObject:
    """Return the settings with their defaults. Raises SettingsError."""
    return checks.checked(SlurmSettings, document, CHECKS, "Slurm", _problems_between)


def _problems_between(settings: SlurmSettings) -> dict[str, str]:
    if settings.time_limit and settings.notice_s * 2 > (settings.time_limit_s or 0):
        return {"notice": f"at most half of the time limit {settings.time_limit}, not {settings.notice!r}"}
    return _login_problems(settings)


def _login_problems(settings: SlurmSettings) -> dict[str, str]:
    """Return what is missing for a login node."""
    if not settings.ssh_host:
        return {}
    needed = {
        "ssh_user": "the user who submits jobs there is needed",
        "ssh_host_key": "the host key is needed, as `ssh-keyscan` prints it",
        "python": "the interpreter on the machines is needed where another one submits the jobs",
    }
    return {name: words for name, words in needed.items() if not getattr(settings, name)}


def _options(lines: list[str]) -> str:
    if len(lines) > len(OPTIONS):
        return f"at most {len(OPTIONS)} lines, not {len(lines)}"
    for line in lines:
        name, equals, value = line.partition("=")
        if name not in OPTIONS:
            return f"one of sbatch's options {', '.join(sorted(OPTIONS))} as name=value, not {line[:100]!r}"
        if not equals and name in FLAGS:
            continue
        if problem := template_problem(line):
            return problem
        if not OPTION.fullmatch(without_fields(value)):
            return f"{name!r} needs a plain value in one line, not {value[:100]!r}"
    return ""


def _with_fields(check: Check) -> Check:
    return lambda value: template_problem(value) or check(without_fields(value))


CHECKS: dict[str, Check] = {
    "folder": checks.shared_folder,
    "machines": checks.number(1, MAX_MACHINES),
    "slots": checks.number(1, MAX_SLOTS),
    "cpus_per_slot": checks.number(1, MAX_CPUS),
    "gres": checks.text(GRES, "a name such as gpu or gpu:a100, without a number"),
    "memory": checks.text(MEMORY, "a size such as 16G"),
    "partition": _with_fields(checks.text(NAME, "the name of one partition")),
    "account": _with_fields(checks.text(NAME, "a name of letters, digits and . _ @ + -")),
    "qos": _with_fields(checks.text(NAME, "a name of letters, digits and . _ @ + -")),
    "time_limit": checks.duration(LEAST_LIMIT_S),
    "notice": checks.duration(0.0),
    "options": _options,
    "modules": checks.lines(MODULE, "a module such as cuda/12.4", most=MAX_MODULES),
    "python": checks.path,
    "server": checks.server,
    "slurm_conf": checks.path,
    "ssh_host": host_problem,
    "ssh_port": checks.number(1, 65_535),
    "ssh_user": checks.text(USER, "the name of a user"),
    "ssh_host_key": host_key_problem,
    "ssh_key_file": key_file_problem,
}
