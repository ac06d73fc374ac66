"""What a node can do to keep scripts from its own files, found out once, and the sandboxes that follow from it.

``python -m workers.sandbox.node HOME`` tries it and prints the level.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from workers.sandbox.process import ROOT, Level, Sandbox, enter, our_programs

SETTING = "TRAINYARD_ISOLATION"
OFF = "off"
PROCESSES = "TRAINYARD_RANK_PROCESSES"
MOST_PROCESSES = 16_384
PID_MAX = Path("/proc/sys/kernel/pid_max")
PROBE_LIMIT_S = 20.0
# Where projects' users have their numbers: beyond what machines, containers and systemd give away. Where so high ones
# are not to be had, as in some containers, lower ones.
USERS, FEWER_USERS = (1_900_000_000, 100_000_000), (20_000, 40_000)
GPU_DEVICES = (Path("/dev/kfd"), Path("/dev/dri/renderD128"))  # which a group may use; NVIDIA's are everybody's


class Isolation(msgspec.Struct, frozen=True):
    """``hidden``: folders of the server and the node, which are Trainyard's home and those of sockets. ``processes``:
    those and threads that the ranks of one project may have; 0: no limit."""

    level: Level = Level.NONE
    hidden: tuple[str, ...] = ()
    processes: int = 0

    def sandbox(self, project: str, *, own: Iterable[Path], shown: Iterable[Path] = ()) -> Sandbox:
        """Return the sandbox of a process of ``project``; ``own`` folders are made and handed over to its user."""
        owned = [os.fspath(one) for one in own]
        if self.level == Level.NONE:
            return Sandbox()
        user = user_of(project) if self.level.is_other_user else -1
        groups: tuple[int, ...] = ()
        if self.level.is_other_user:
            for place in owned:
                hand_over(Path(place), user)
            groups = _device_groups()
        hidden = [one for one in self.hidden if Path(one).is_dir()]
        places = [os.fspath(one) for one in shown if one.exists()]
        if self.level == Level.USER:
            for place in (*owned, *places):
                _open_folders_to(Path(place), hidden)
        processes = self.processes if self.level.is_other_user else 0
        return Sandbox(self.level, user, groups, tuple(hidden), tuple(places), tuple(owned), processes)

    def problem_of(self, location: str) -> str:
        """Return why the user of a project's ranks may not read a path of this machine; empty where they may, where
        nothing is there, and of a URL."""
        if not self.level.is_other_user or not location.startswith("/"):
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
    """Return what on the way to the file or folder, links included, others may not pass or read; None where all may."""
    if not path.exists():
        return None
    programs = [Path(place) for place in our_programs()]
    for way in (path.absolute(), path.resolve()):
        if any(way.is_relative_to(place) for place in programs):  # which every rank is shown
            continue
        for folder in reversed(way.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                return folder
        if not way.stat().st_mode & stat.S_IROTH:
            return way
    return None


def find_isolation(home: Path, *others: Path) -> Isolation:
    """Try what this machine allows, in a process of its own. ``home`` is Trainyard's."""
    hidden = tuple(dict.fromkeys(os.fspath(one) for one in (home.resolve(), *_socket_folders(), *others)))
    if os.environ.get(SETTING, "").lower() == OFF or sys.platform != "linux":
        return Isolation(Level.NONE, hidden)
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "workers.sandbox.node", os.fspath(home.resolve())],
            cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_LIMIT_S, check=True,
        )  # fmt: skip
        return Isolation(Level(answer.stdout.decode().strip()), hidden, most_processes())
    except (OSError, subprocess.SubprocessError, ValueError):
        return Isolation(Level.NONE, hidden)


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
    first, number = USERS if _has_user(sum(USERS)) else FEWER_USERS
    return first + int.from_bytes(hashlib.sha256(project.encode()).digest()[:8]) % number


def hand_over(folder: Path, user: int) -> None:
    """Make the folder, and it and all in it the user's. Links are not followed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid == user:
        return
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(Path(path) / name, user, user, follow_symlinks=False)
    os.chown(folder, user, user)


def _open_folders_to(place: Path, hidden: Iterable[str]) -> None:
    """Without a view of its own the user passes through our folders, and lists none of them."""
    for folder in place.parents:
        if any(folder.is_relative_to(one) for one in hidden):
            folder.chmod(folder.stat().st_mode & 0o7777 | 0o011)


def _socket_folders() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.getuid()
    places = [Path(tempfile.gettempdir()) / f"trainyard-{user}", Path(f"/run/user/{user}")]
    return [*places, *([Path(runtime)] if runtime else [])]


def _device_groups() -> tuple[int, ...]:
    found = (path.stat().st_gid for path in GPU_DEVICES if path.exists())
    return tuple(dict.fromkeys(group for group in found if group))


def _has_user(number: int) -> bool:
    """Whether this machine, or the container that looks like one, has so many users."""
    rows = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(first <= number < first + length for first, _, length in rows)


def _probe(home: Path) -> Level:
    as_root = (Level.USER_AND_NAMESPACE, Level.USER)
    for level in as_root if os.geteuid() == 0 else (Level.NAMESPACE,):
        if _works(level, home):
            return level
    return Level.NONE


def _works(level: Level, home: Path) -> bool:
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=home) as folder:
        secret, own = Path(folder) / "secret", Path(folder) / "own"
        secret.write_text("x")
        secret.chmod(0o600)
        own.mkdir()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                enter(Isolation(level, (os.fspath(home),)).sandbox("probe", own=[own]))
                code = 0 if _is_kept_in(secret, own) else 1
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _is_kept_in(secret: Path, own: Path) -> bool:
    (own / "written").write_text("x")
    for program in (ROOT / "workers" / "__init__.py", Path(os.__file__), Path(sys.executable)):
        program.read_bytes()
    try:
        secret.read_text()
    except OSError:
        return True
    return False


if __name__ == "__main__":
    print(_probe(Path(sys.argv[1])).value)
