"""Means of a node to keep scripts from its own files, and the sandboxes that follow from them."""

import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from trainyard.contract.base import BadDocument, decode
from trainyard.contract.machines import NodeSandbox, SandboxLevel, sandbox_level
from trainyard.spooling.held_folder import give_to
from workers.sandbox import cgroups
from workers.sandbox.process import ROOT, TEMPORARY, Mechanism, Sandbox, our_programs

SETTING = "TRAINYARD_ISOLATION"
OFF, AUTO = "off", "auto"
PROCESSES = "TRAINYARD_RANK_PROCESSES"
MEMORY, CPUS, NETWORK = "TRAINYARD_RANK_MEMORY", "TRAINYARD_RANK_CPUS", "TRAINYARD_RANK_NETWORK"
TMP, LOOPBACK = "TRAINYARD_RANK_TMP", "TRAINYARD_RANK_LOOPBACK"
BYTES = re.compile(r"(\d{1,15})(?:([KMGT])(?:i?B)?)?", re.IGNORECASE)
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
MOST_PROCESSES = 16_384
PID_MAX = Path("/proc/sys/kernel/pid_max")
PROBE_LIMIT_S = 20.0
MOST_LINKS = 40  # on the way to a file, as the kernel follows them
# Numbers of projects' users (first, how many): beyond those that machines, containers and systemd give away. Lower ones
# where such high ones do not exist, as in some containers.
USERS, FEWER_USERS = (1_900_000_000, 100_000_000), (20_000, 40_000)
GPU_DEVICES = (Path("/dev/kfd"), Path("/dev/dri/renderD128"))  # which a group may use; NVIDIA's are everybody's


class CannotIsolate(ValueError):
    """A setting that is none, or asks for a level that this machine does not allow."""


class Probe(msgspec.Struct, frozen=True):
    """Means that this machine allows. ``missing``: why no higher level."""

    mechanism: Mechanism = Mechanism.NONE
    level: SandboxLevel = SandboxLevel.NONE
    missing: tuple[str, ...] = ()
    loopback_problem: str = "ranks of all projects are the same Unix user"  # why no guard keeps projects apart there


class Isolation(msgspec.Struct, frozen=True):
    """``hidden``: folders of the server and the node, which are Trainyard's home and those of sockets."""

    mechanism: Mechanism = Mechanism.NONE
    hidden: tuple[str, ...] = ()
    processes: int = 0  # and threads that the ranks of one project may have; 0: no limit
    level: SandboxLevel = SandboxLevel.NONE
    missing: tuple[str, ...] = ()
    setting: str = AUTO
    memory_bytes: int = 0  # of one rank; 0: no limit
    cpus: float = 0.0  # of one rank; 0: no limit
    cgroup: str = ""  # below which attempts have theirs
    cgroup_problem: str = ""
    has_own_network: bool = False  # attempts that have no other node
    has_own_tmp: bool = False  # attempts: what is /tmp and /var/tmp to them
    loopback_problem: str = "no sandbox"  # why projects reach each other's ports on this machine; empty: they do not

    @property
    def is_other_user(self) -> bool:
        return self.mechanism.is_other_user

    def described(self) -> NodeSandbox:
        found = {name: getattr(self, name) for name in NodeSandbox.__struct_fields__}
        return NodeSandbox(**found | {"level": int(self.level), "missing": list(self.missing)})

    def sandbox(
        self, project: str, *, own: Iterable[Path], shown: Iterable[Path] = (), temporary: Path | None = None
    ) -> Sandbox:
        """Return the sandbox of a process of ``project``; ``own`` folders are made and handed over to its user.
        ``temporary`` is that of them which is to be its /tmp, where processes here have one of their own."""
        owned = [os.fspath(one) for one in own]
        if self.mechanism == Mechanism.NONE:
            return Sandbox()
        user = user_of(project) if self.is_other_user else -1
        groups: tuple[int, ...] = ()
        if self.is_other_user:
            for place in owned:
                hand_over(Path(place), user)
            found = (path.stat().st_gid for path in GPU_DEVICES if path.exists())
            groups = tuple(dict.fromkeys(group for group in found if group))
        hidden = [one for one in self.hidden if Path(one).is_dir()]
        places = [os.fspath(one) for one in shown if one.exists()]
        if self.mechanism == Mechanism.USER:
            for place in (*owned, *places):
                _open_folders_to(Path(place), hidden)
        return Sandbox(
            mechanism=self.mechanism,
            user=user,
            groups=groups,
            hidden=tuple(hidden),
            shown=tuple(places),
            own=tuple(owned),
            temporary=os.fspath(temporary) if temporary is not None and self.has_own_tmp else "",
            processes=self.processes if self.is_other_user else 0,
            is_filtered=self.level >= SandboxLevel.NAMESPACES,
        )

    def problem_of(self, location: str) -> str:
        """Return why the user of a project's ranks may not read a path of this machine; empty where they may, where
        nothing is there, and of a URL."""
        if not self.is_other_user or not location.startswith("/"):
            return ""
        closed = closed_to_others(Path(location))
        return (
            f"{location} may not be read by the Unix user of the project's ranks, since {closed} is closed to others: "
            "open it to them (chmod o+rX), or lay it elsewhere"
            if closed
            else ""
        )


NO_ISOLATION = Isolation()


def closed_to_others(path: Path) -> Path | None:
    """Return the first folder on the way, wherever links lead, that others may not pass, or what is at its end where
    they may not read it; None where they may, and where they see that nothing is there. What is behind a closed folder
    is not looked at: root's answer must not say what is there."""
    programs = our_programs()
    place, rest, num_links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    while True:
        way = place.joinpath(*reversed(rest))
        if any(way.is_relative_to(program) for program in programs):
            return None  # every rank is shown these
        try:
            mode = place.lstat().st_mode
            target = place.readlink() if stat.S_ISLNK(mode) else None
        except OSError:
            return None
        if target is not None:
            num_links += 1
            if num_links > MOST_LINKS:
                return None
            place = Path("/") if target.is_absolute() else place.parent
            rest += [part for part in reversed(target.parts) if part != "/"]
        elif not rest:
            return None if mode & stat.S_IROTH else place
        elif not stat.S_ISDIR(mode):
            return None
        elif not mode & stat.S_IXOTH:
            return place
        else:
            part = rest.pop()
            place = place.parent if part == ".." else place / part


def find_isolation(home: Path, *others: Path, environ: Mapping[str, str] = os.environ) -> Isolation:
    """Try what this machine allows, in a process of its own. ``home`` is Trainyard's. Raises CannotIsolate for a
    setting that is none, and for a level that the settings ask for and the machine does not allow."""
    hidden = tuple(dict.fromkeys(os.fspath(one) for one in (home.resolve(), *_socket_folders(), *others)))
    setting = environ.get(SETTING, "").strip().lower() or AUTO
    wanted = wanted_level(setting)
    cgroup, problem = cgroups.find_group(environ)
    own_network = _is_own(NETWORK, environ)
    found = Probe() if wanted == SandboxLevel.NONE else probed(home)
    if wanted is not None and found.level < wanted:
        raise CannotIsolate(
            f"{SETTING}={setting}: this machine allows level {found.level} only. {' '.join(found.missing)}"
        )
    level = found.level if wanted is None else wanted
    if own_network and level < SandboxLevel.NAMESPACES:
        raise CannotIsolate(f"{NETWORK}=own needs sandbox level 2, and this node has level {level}.")
    own_tmp = _is_own(TMP, environ)
    if own_tmp and not found.mechanism.has_namespace:
        raise CannotIsolate(f"{TMP}=own needs mounts, which this machine does not allow.")
    loopback_problem = found.loopback_problem if _is_own(LOOPBACK, environ, default="own") else f"{LOOPBACK}=host"
    if loopback_problem and environ.get(LOOPBACK, "").lower() == "own":
        raise CannotIsolate(f"{LOOPBACK}=own is not to be had: {loopback_problem}.")
    return Isolation(
        mechanism=found.mechanism,
        hidden=hidden,
        processes=most_processes(),
        level=level,
        missing=found.missing if level == found.level else (f"{SETTING}={setting}",),
        setting=setting,
        memory_bytes=_bytes(MEMORY, environ.get(MEMORY, "")),
        cpus=_cores(CPUS, environ.get(CPUS, "")),
        cgroup=cgroup,
        cgroup_problem=problem,
        has_own_network=own_network,
        has_own_tmp=own_tmp,
        loopback_problem=loopback_problem,
    )


def _is_own(name: str, environ: Mapping[str, str], *, default: str = "host") -> bool:
    """Return whether attempts have one of their own. Raises CannotIsolate."""
    given = environ.get(name, "").lower() or default
    if given not in ("own", "host"):
        raise CannotIsolate(f"{name}: {given[:40]!r} is neither host nor own.")
    return given == "own"


def wanted_level(setting: str) -> SandboxLevel | None:
    """Return the level that the setting names, None for the highest that the machine allows. Raises CannotIsolate."""
    if setting == AUTO:
        return None
    try:
        return SandboxLevel.NONE if setting == OFF else sandbox_level(setting, SETTING)
    except ValueError as error:
        raise CannotIsolate(str(error)) from error


def probed(home: Path) -> Probe:
    """Try it in a program of its own: it changes its user, and forks."""
    if sys.platform != "linux":
        return Probe(missing=("Sandboxes are Linux's.",))
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "workers.sandbox.probe", os.fspath(home.resolve())],
            cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_LIMIT_S, check=True,
        )  # fmt: skip
        return decode(answer.stdout.decode(), Probe)
    except (OSError, subprocess.SubprocessError, BadDocument) as error:
        return Probe(missing=(f"The probe of sandboxes failed: {error}"[:300],))


def _bytes(name: str, text: str) -> int:
    found = BYTES.fullmatch(text.strip())
    if text and not found:
        raise CannotIsolate(f"{name}: {text[:40]!r} is no number of bytes, such as 512M or 16G.")
    return int(found[1]) * 1024 ** POWERS[(found[2] or "").upper()] if found else 0


def _cores(name: str, text: str) -> float:
    try:
        cores = float(text or 0)
    except ValueError:
        cores = -1.0
    if not 0 <= cores < 100_000:
        raise CannotIsolate(f"{name}: {text[:40]!r} is no number of cores, such as 4 or 0.5.")
    return cores


def most_processes() -> int:
    """Return how many processes and threads the ranks of one project may have here, so that a fork bomb leaves room for
    everybody else."""
    given = os.environ.get(PROCESSES, "")
    if given.isascii() and given.isdigit():
        return int(given)
    try:
        return min(MOST_PROCESSES, int(PID_MAX.read_text()) // 4)
    except (OSError, ValueError):
        return MOST_PROCESSES


def user_of(project: str) -> int:
    """Return the number of the project's Unix user, which runs its ranks: the same on every machine."""
    first, number = project_users()
    return first + int.from_bytes(hashlib.sha256(project.encode()).digest()[:8]) % number


def project_users() -> tuple[int, int]:
    """Return the first number of projects' users on this machine, and how many there are."""
    return USERS if _has_user(sum(USERS)) else FEWER_USERS


def hand_over(folder: Path, user: int) -> None:
    """Make the folder, and it and all in it the user's, as far as it is the node's to give."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid == user:
        return
    give_to(folder, user)


def _open_folders_to(place: Path, hidden: Iterable[str]) -> None:
    """Let a user without a view of its own pass through our folders, and list none of them."""
    for folder in place.parents:
        if any(folder.is_relative_to(one) for one in hidden):
            folder.chmod(folder.stat().st_mode & 0o7777 | 0o011)


def _socket_folders() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.getuid()
    temporary = dict.fromkeys((tempfile.gettempdir(), *TEMPORARY))
    places = [*(Path(one) / f"trainyard-{user}" for one in temporary), Path(f"/run/user/{user}")]
    return [*places, *([Path(runtime)] if runtime else [])]


def _has_user(number: int) -> bool:
    """Return whether this machine, or the container that looks like one, has so many users."""
    rows = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= number < first + length for first, _, length in rows)
