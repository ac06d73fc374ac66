"""The real servers that tests talk to, each in its own temporary folder, and gone when the tests are."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from dashboard.home import LONGEST_SOCKET_PATH
from dashboard.postgres_programs import find_postgres_folder
from dashboard.up.parent_death import tethered
from dashboard.up.valkey import NoValkey, answers, server_command


class Valkey:
    """A server that a test may kill, empty and start again under the same address."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.socket = folder / "valkey.sock"
        self.durable = durable
        self.process: subprocess.Popen[bytes] | None = None
        assert len(str(self.socket)) <= LONGEST_SOCKET_PATH, f"{self.socket} is too long for a socket"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = tethered(server_command(self.folder, self.socket, durable=self.durable))
        with (self.folder / "valkey.log").open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        wait_until_it_answers(self.socket)

    def kill(self) -> None:
        """SIGKILL: what was not on disk is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=10)
            self.process = None


@contextmanager
def short_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder of mode 0700 whose path leaves room for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class PostgreSQL:
    """A server from the machine's package, run by an unprivileged user where the tests run as root."""

    USER = "trainyard"

    def __init__(self, folder: Path, programs: Path, *, is_durable: bool = False) -> None:
        """``is_durable``: what it has committed outlives its SIGKILL, as with its own defaults."""
        self.folder = folder
        self.programs = programs
        self.is_durable = is_durable
        self.port = free_port()
        self.password = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None
        self.owner = unprivileged_user() if os.getuid() == 0 else None

    @property
    def url(self) -> str:
        return f"postgresql://{self.USER}:{self.password}@127.0.0.1:{self.port}/trainyard"

    def start(self) -> None:
        data = self.folder / "data"
        secret = self.folder / "password"
        secret.write_text(self.password)
        if self.owner is not None:
            for path in (self.folder, secret):
                os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
        self._run("initdb", "-D", data, "-U", self.USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8",
                  "--no-locale", "--no-sync")  # fmt: skip
        commits = "on" if self.is_durable else "off"
        options = {"fsync": "off", "synchronous_commit": commits, "full_page_writes": "off", "max_connections": "100",
                   "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}  # fmt: skip
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(data), "-p", str(self.port), *words]
        self._begin(command)
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", self.USER, "trainyard")

    def _begin(self, command: list[str]) -> None:
        self._command = command
        with (self.folder / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*dies_with_us(), *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                user=self._user, group=self._group,
            )  # fmt: skip
        self._wait()

    def start_again(self) -> None:
        """Serve the same data at the same port, after ``stop``."""
        self._begin(self._command)

    def kill(self) -> None:
        """SIGKILL it with all its processes."""
        assert self.process is not None
        children = psutil.Process(self.process.pid).children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()
        self.process.wait(timeout=30)
        psutil.wait_procs(children, timeout=30)
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # "fast": it waits for no connection
            self.process.wait(timeout=30)
            self.process = None

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while subprocess.run(
            [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        ).returncode:
            assert time.monotonic() < deadline, (self.folder / "postgres.log").read_text()
            time.sleep(0.05)

    def _run(self, program: str, *words: str | Path) -> None:
        done = subprocess.run(
            [self.programs / program, *words], cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PGPASSWORD": self.password}, user=self._user, group=self._group,
        )  # fmt: skip
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    @property
    def _user(self) -> int | None:
        return None if self.owner is None else self.owner.pw_uid

    @property
    def _group(self) -> int | None:
        return None if self.owner is None else self.owner.pw_gid


def start_postgresql(folder: Path, *, is_durable: bool = False) -> PostgreSQL | None:
    """Return a running server, or None on a machine without PostgreSQL's programs."""
    programs = find_postgres_folder()
    if programs is None:
        return None
    # Of a package that links some of its programs elsewhere, all lie where the links lead.
    server = PostgreSQL(folder, (programs / "postgres").resolve().parent, is_durable=is_durable)
    try:
        server.start()
    except BaseException:
        server.stop()
        raise
    return server


def unprivileged_user() -> pwd.struct_passwd:
    """PostgreSQL refuses to run as root: take its own user if the package made one."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def dies_with_us() -> list[str]:
    """Words before a command. Not our tether: the unprivileged user may not be allowed to read our Python."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "KILL"] if program else []


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_until_it_answers(unix_socket: Path, timeout_s: float = 10.0) -> None:
    """Raise NoValkey when there is no answer within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not answers(unix_socket):
        if time.monotonic() > deadline:
            raise NoValkey(f"The embedded Valkey did not answer on {unix_socket} within {timeout_s:g} s.")
        time.sleep(0.01)
