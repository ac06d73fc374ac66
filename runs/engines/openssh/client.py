"""OpenSSH's `ssh` by argument list. One connection to a machine is kept for the next minute, so that most commands cost
no new one."""

import atexit
import hashlib
import os
import shlex
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runs.engines.openssh.identity import ssh_folder
from runs.engines.openssh.target import Target
from runs.engines.refusals import SystemAway
from trainyard.spooling.plain_files import write_private

LIMIT_S = 20.0  # of one command, with its connection
CONNECT_S = 8
KEEP_S = 60  # a connection that nobody uses
CLOSE_S = 2.0
SSH_FAILED = 255  # ssh's own exit code
MAX_ERRORS = 20_000
MAX_SOCKET = 88  # of a socket's path: ssh adds 17 characters for a moment, and the system allows 107
SAFE = (
    "BatchMode=yes", "LogLevel=ERROR", "PermitLocalCommand=no",
    "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", "CheckHostIP=no",
    "IdentitiesOnly=yes", "IdentityAgent=none", "PreferredAuthentications=publickey",
    "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
    "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no",
    f"ConnectTimeout={CONNECT_S}", "ServerAliveInterval=5", "ServerAliveCountMax=2",
)  # fmt: skip
_open_sockets: set[str] = set()


class Done(NamedTuple):
    code: int
    output: str
    errors: str


class OpenSsh:
    """``identity``: the file with the private key."""

    def __init__(self, target: Target, identity: Path) -> None:
        self.target, self._identity = target, identity
        about = "\n".join((target.label, target.host_key, str(identity)))
        self._digest = hashlib.sha256(about.encode()).hexdigest()[:16]

    def run(self, words: Sequence[str], text: str = "", *, limit_s: float = LIMIT_S) -> Done:
        """Run a program there, its words quoted for the shell that SSH puts between. Raises SystemAway where the
        machine is not reached, does not let us in, or is not the one we know."""
        socket = self._socket()
        place = ["-p", str(self.target.port), "-l", self.target.user, "--", self.target.host, shlex.join(words)]
        with tempfile.TemporaryFile() as errors:  # a kept connection holds a pipe open
            try:
                done = subprocess.run(
                    ["ssh", "-T", *self._options(socket), *place],
                    input=text.encode(),
                    env=_environment(),
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    timeout=limit_s,
                    check=False,
                    cwd="/",
                )
            except FileNotFoundError as error:
                raise SystemAway("The program ssh is not on this server (Debian has it in openssh-client).") from error
            except subprocess.TimeoutExpired as error:
                close(socket)
                raise SystemAway(f"{self.target.label} did not answer within {limit_s:g} s.") from error
            except OSError as error:
                raise SystemAway(f"ssh cannot be run: {error.strerror or error}.") from error
            errors.seek(0)
            complaints = errors.read(MAX_ERRORS).decode(errors="replace")
        if done.returncode == SSH_FAILED:
            raise SystemAway(problem_of(self.target, complaints))
        return Done(done.returncode, done.stdout.decode(errors="replace"), complaints)

    def _options(self, socket: str) -> list[str]:
        alias = f"trainyard.{self._digest}"
        known = ssh_folder() / f"known-{self._digest}"
        line = f"{alias} {self.target.host_key}\n"
        if not known.exists() or known.read_text() != line:
            write_private(known, line)
        options = [*SAFE, f"HostKeyAlias={alias}", f"UserKnownHostsFile={known}", f"IdentityFile={self._identity}"]
        if socket:
            options += ["ControlMaster=auto", f"ControlPath={socket}", f"ControlPersist={KEEP_S}"]
        return ["-F", "none", *(word for option in options for word in ("-o", option))]

    def _socket(self) -> str:
        """Return the path of the kept connection's socket; empty where there is no good place for one."""
        folder = _runtime_folder()
        path = f"{folder}/ssh-{self._digest}" if folder else ""
        if not path or len(path) > MAX_SOCKET:
            return ""
        _open_sockets.add(path)
        return path


def problem_of(target: Target, complaints: str) -> str:
    """Return as a sentence why `ssh` did not get through, by what it wrote."""
    words = complaints.lower()
    if "identification has changed" in words or "host key verification failed" in words or "no matching host" in words:
        return (
            f"{target.label} shows another host key than the one of the cluster's settings ({target.fingerprint}), so "
            f"nothing was sent. If it was set up anew, compare `ssh-keyscan -p {target.port} {target.host}` with what "
            "its administrator says, and enter the new key; else somebody may stand in between."
        )
    if "invalid format" in words or "error in libcrypto" in words or "passphrase" in words:
        return f"The private key for {target.label} cannot be used: it must be whole and without a passphrase."
    if "permission denied" in words or "too many authentication" in words:
        return f"{target.label} does not let the server in with its key: is its public half in authorized_keys there?"
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    said = lines[-1].removeprefix("ssh: ").rstrip(".\r")[:200] if lines else "the connection ended"
    return f"{target.label} is not reached: {said}."


def close(socket: str) -> None:
    """End a kept connection: it hangs, or the server stops."""
    if socket and Path(socket).exists():
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ["ssh", "-F", "none", "-o", f"ControlPath={socket}", "-O", "exit", "--", "machine"],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CLOSE_S,
                check=False,
            )
        Path(socket).unlink(missing_ok=True)


@atexit.register
def _close_all() -> None:
    for socket in list(_open_sockets):
        close(socket)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"), "LC_ALL": "C.UTF-8"}


def _runtime_folder() -> str:
    """Return a folder for sockets that is ours alone, empty where there is none."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(given) / "trainyard" if given else Path(tempfile.gettempdir()) / f"trainyard-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.lstat()
        if stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077:
            return str(folder)
    return ""
