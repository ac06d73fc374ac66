"""What a cluster of engine ``slurm`` must know, and what it refuses. Everything becomes a word of ``sbatch``'s argument
list or is quoted in the job's script; no value may hold a line break."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import msgspec

from runs.engines.allocating import SettingsError
from runs.models.clusters import MAX_SLOTS
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, convert, to_builtins
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
FLAGS = frozenset({"contiguous", "exclusive", "spread-job"})  # which need no value


class SlurmSettings(WireStruct, kw_only=True):
    """The settings of a cluster. Empty texts leave the choice to Slurm."""

    folder: str = ""  # which the server need not see, but all machines of the cluster must
    machines: int = 2  # of all runs together, at most
    slots: int = 1  # ranks on each machine, at most
    cpus_per_slot: int = 1
    gres: str = ""  # a generic resource of which each rank gets one, such as gpu or gpu:a100
    memory: str = ""  # of each machine, such as 16G
    partition: str = ""
    account: str = ""
    qos: str = ""
    time_limit: str = ""  # of a job, such as 4h
    notice: str = "2m"  # how long before that limit the ranks are asked to save and end
    options: list[str] = msgspec.field(default_factory=list)  # more of sbatch's, each name=value
    python: str = ""  # the interpreter on the machines that has Trainyard
    server: str = ""  # this server's address as the machines reach it
    slurm_conf: str = ""  # on this server; empty for its default

    @property
    def interpreter(self) -> str:
        return self.python or sys.executable

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
    """Return the settings with their defaults. Raises SettingsError, whose sentences name field and value."""
    unknown = sorted(set(document) - set(SlurmSettings.__struct_fields__))
    problems = {name: f"Slurm has no setting {name!r}." for name in unknown}
    try:
        settings = convert({**document}, SlurmSettings)
    except BadDocument as error:
        field = str(error).partition(":")[0].partition(".")[0]
        raise SettingsError({**problems, field: f"{error}."}) from error
    for field, check in CHECKS.items():
        if sentence := check(getattr(settings, field)):
            problems[field] = f"{field}: {sentence}."
    if not problems and settings.time_limit and settings.notice_s * 2 > (settings.time_limit_s or 0):
        problems["notice"] = f"notice: at most half of the time limit {settings.time_limit}, not {settings.notice!r}."
    if problems:
        raise SettingsError(problems)
    kept: JsonObject = to_builtins(settings)
    return kept


def _number(least: int, most: int) -> Callable[[int], str]:
    return lambda value: "" if least <= value <= most else f"from {least} to {most}, not {value}"


def _text(pattern: re.Pattern[str], words: str) -> Callable[[str], str]:
    return lambda value: "" if not value or pattern.fullmatch(value) else f"{words}, not {value[:100]!r}"


def _path(value: str, *, is_needed: bool = False) -> str:
    if not value:
        return "a folder that all machines of the cluster share is needed" if is_needed else ""
    is_plain = value.isprintable() and len(value) <= 200 and PurePosixPath(value).is_absolute()
    return "" if is_plain else f"an absolute path of at most 200 characters, not {value[:100]!r}"


def _folder(value: str) -> str:
    return _path(value, is_needed=True)


def _duration(least_s: float) -> Callable[[str], str]:
    def check(value: str) -> str:
        try:
            seconds = seconds_of(value) if value else least_s
        except ValueError as error:
            return str(error)
        return "" if seconds >= least_s else f"at least {least_s:g} s, not {value!r}"

    return check


def _server(value: str) -> str:
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        is_fine = parts.scheme in ("http", "https") and parts.hostname and value.isascii() and value.isprintable()
        is_fine = is_fine and " " not in value and parts.port != 0 and len(value) <= 200
    except ValueError:
        is_fine = False
    return "" if is_fine else f"an address such as http://host:8000, not {value[:100]!r}"


def _options(lines: list[str]) -> str:
    if len(lines) > len(OPTIONS):
        return f"at most {len(OPTIONS)} lines, not {len(lines)}"
    for line in lines:
        name, equals, value = line.partition("=")
        if name not in OPTIONS:
            return f"one of sbatch's options {', '.join(sorted(OPTIONS))} as name=value, not {line[:100]!r}"
        if not equals and name in FLAGS:
            continue
        if not OPTION.fullmatch(value):
            return f"{name} needs a plain value in one line, not {value[:100]!r}"
    return ""


CHECKS: dict[str, Callable[..., str]] = {
    "folder": _folder,
    "machines": _number(1, MAX_MACHINES),
    "slots": _number(1, MAX_SLOTS),
    "cpus_per_slot": _number(1, MAX_CPUS),
    "gres": _text(GRES, "a name such as gpu or gpu:a100, without a number"),
    "memory": _text(MEMORY, "a size such as 16G"),
    "partition": _text(NAME, "the name of one partition"),
    "account": _text(NAME, "a name of letters, digits and . _ @ + -"),
    "qos": _text(NAME, "a name of letters, digits and . _ @ + -"),
    "time_limit": _duration(LEAST_LIMIT_S),
    "notice": _duration(0.0),
    "options": _options,
    "python": _path,
    "server": _server,
    "slurm_conf": _path,
}
