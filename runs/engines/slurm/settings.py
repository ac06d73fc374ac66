"""Settings of a cluster of engine ``slurm``, and the values it refuses. Everything becomes a word of ``sbatch``'s
argument list or is quoted in the job's script; no value may hold a line break."""

import re
import sys
from dataclasses import dataclass
from typing import ClassVar

from runs.engines.cluster_settings import checks, settings
from runs.engines.cluster_settings.settings import Check, Guarded, Offer, Settings, field
from runs.engines.openssh.identity import key_field, key_file_field, of_key
from runs.engines.openssh.target import DEFAULT_PORT, USER, Target, host_key_problem, host_problem, read_host_key
from runs.engines.slurm.template import template_problem, without_fields
from trainyard.spec.values.durations import seconds_of

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


SITE_NAME = _with_fields(checks.text(NAME, "a name of letters, digits and . _ @ + -"))


@dataclass(frozen=True, kw_only=True)
class SlurmSettings(Settings):
    """The settings of a cluster. Empty texts leave the choice to Slurm. Partition, account, QOS and options may have
    fields that each run fills in: see template."""

    folder: str = settings.shared_folder("the jobs' user", "output of jobs", heading="Resources")
    machines: int = settings.machines()
    slots: int = settings.slots()
    cpus_per_slot: int = field("Cores for a rank", default=1, check=checks.number(1, checks.MAX_CPUS))
    gres: str = field(
        "Generic resource",
        "Of which each rank gets one, such as gpu or gpu:a100; empty for CPUs.",
        checks.text(GRES, "a name such as gpu or gpu:a100, without a number"),
    )
    memory: str = settings.memory("Such as 16G; empty for the partition's default.", MEMORY, "16G")
    partition: str = field(
        "Partition",
        "Empty for Slurm's default.",
        _with_fields(checks.text(NAME, "the name of one partition")),
        heading="Queue",
    )
    account: str = field("Account", "Which Slurm charges; empty for the user's default.", SITE_NAME)
    qos: str = field("QOS", "The quality of service of its jobs; empty for the account's default.", SITE_NAME)
    time_limit: str = settings.time_limit(checks.duration(checks.LEAST_LIMIT_S))
    notice: str = field(
        "Notice",
        "How long before that limit its ranks are asked to save and end, such as 2m.",
        checks.duration(0.0),
        default="2m",
    )
    options: list[str] = field(
        "More options",
        "Of sbatch, one name=value a line, such as constraint=ib or exclude=c7. These, the "
        "account, the partition and the QOS may have fields that each run fills in: {project}, {owner}, {run}, "
        "{cluster}, {attempt}, {nodes}, {slots}, as in wckey={project}.",
        _options,
        default=[],
        placeholder="name=value, one a line",
    )
    modules: list[str] = field(
        "Modules",
        "Environment modules that a job loads before its nodes start, one a line.",
        checks.lines(MODULE, "a module such as cuda/12.4", most=MAX_MODULES),
        default=[],
        placeholder="cuda/12.4",
    )
    python: str = settings.python("the machines", heading="Paths and addresses")
    server: str = settings.server()
    slurm_conf: str = field(
        "slurm.conf", "Its path where Slurm's programs run; empty for Slurm's default.", checks.path
    )
    ssh_host: str = field(
        "Host",
        "Of a login node, where this server has no Slurm itself: its programs are run there over SSH.",
        host_problem,
        heading="Login node",
    )
    ssh_port: int = field("Port", default=DEFAULT_PORT, check=checks.number(1, 65_535))
    ssh_user: str = field("User", "Who submits the jobs there.", checks.text(USER, "the name of a user"))
    ssh_host_key: str = field(
        "Host key",
        "As ssh-keyscan prints it, such as ssh-ed25519 AAAA…; compare it with what its administrator says.",
        host_key_problem,
    )
    ssh_key: ClassVar[str] = key_field()
    ssh_key_file: str = key_file_field()

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

    def problems(self) -> dict[str, str]:
        if self.time_limit and self.notice_s * 2 > (self.time_limit_s or 0):
            return {"notice": f"at most half of the time limit {self.time_limit}, not {self.notice!r}"}
        if not self.ssh_host:
            return {}
        needed = {
            "ssh_user": "the user who submits jobs there is needed",
            "ssh_host_key": "the host key is needed, as `ssh-keyscan` prints it",
            "python": "the interpreter on the machines is needed where another one submits the jobs",
        }
        return {name: words for name, words in needed.items() if not getattr(self, name)}

    def offers(self) -> list[Offer]:
        name, _, kind = self.gres.partition(":")
        return [Offer(self.machines, self.slots, (kind or "GPU") if name == "gpu" else "")]

    def guarded(self) -> Guarded:
        """slurm.conf names plugins, and without a login node jobs are the server's user's."""
        found = of_key(self.ssh_key_file, "ssh_host", [] if self.login is None else [self.login])
        own = {"slurm_conf": self.slurm_conf} if self.login else {"slurm_conf": self.slurm_conf, "python": self.python}
        return found._replace(on_server={**found.on_server, **own}, identity="" if self.login else "ssh_host")
