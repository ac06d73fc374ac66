"""``python -m workers.sandbox.probe HOME``: which sandbox this machine allows, found out by entering each.

Prints one JSON document, and takes a tenth of a second.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trainyard.contract.base import encode
from trainyard.contract.machines import SandboxLevel
from workers.kernel import CLONE_NEWUSER, unshare
from workers.sandbox import loopback, seccomp
from workers.sandbox.namespaces import NamespaceHolder
from workers.sandbox.node import Isolation, Probe, project_users
from workers.sandbox.process import ROOT, Mechanism, Sandbox, enter

NOT_ROOT = (
    "Level 2 needs a node worker that is root: an ordinary user's processes cannot be forked warm into a PID namespace."
)
NO_VIEW = "Level 2 needs mounts of its own for each rank, and this machine refuses them: {why}."
NO_NAMESPACES = "Level 2 needs namespaces and a filter of system calls, and this machine refuses them: {why}."
NO_LEVEL_1 = "Level 1 needs a node worker that is root, or user namespaces: {why}."


@dataclass
class Prober:
    """Tries sandboxes on a folder with a secret in it."""

    home: Path
    why: str = field(default="", init=False)  # the last one that was tried was refused

    def probe(self) -> Probe:
        is_root = os.geteuid() == 0
        for mechanism in (Mechanism.USER_AND_NAMESPACE, Mechanism.USER) if is_root else (Mechanism.NAMESPACE,):
            why = self.why
            if not self._works(mechanism, self._enter):
                continue
            if mechanism == Mechanism.USER_AND_NAMESPACE:
                if self._works(mechanism, self._enter_namespaces):
                    return Probe(mechanism, SandboxLevel.NAMESPACES, loopback_problem=_why_not_guarded(mechanism))
                missing = NO_NAMESPACES.format(why=self.why)
            else:
                missing = NO_VIEW.format(why=why) if is_root else NOT_ROOT
            return Probe(mechanism, SandboxLevel.USER, (missing,), _why_not_guarded(mechanism))
        return Probe(missing=(NO_LEVEL_1.format(why=self.why),))

    def _works(self, mechanism: Mechanism, try_out: Callable[[Sandbox, Path, Path], str]) -> bool:
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=self.home) as folder:
            secret, own = Path(folder) / "secret", Path(folder) / "own"
            secret.write_text("x")
            secret.chmod(0o600)
            own.mkdir()
            try:
                sandbox = Isolation(mechanism, (os.fspath(self.home),)).sandbox("probe", own=[own])
                self.why = try_out(sandbox, secret, own)
            except OSError as error:
                self.why = str(error)
        return not self.why

    def _enter(self, sandbox: Sandbox, secret: Path, own: Path) -> str:
        return in_child(lambda: _why_not_kept_in(sandbox, secret, own))

    def _enter_namespaces(self, sandbox: Sandbox, secret: Path, own: Path) -> str:
        if problem := seccomp.problem():
            return problem
        holder = NamespaceHolder()
        try:
            with holder.for_children():
                full = msgspec.structs.replace(sandbox, holder=holder.pid, is_filtered=True)
                return in_child(lambda: _why_not_kept_in(full, secret, own) or _why_not_alone())
        finally:
            holder.close()


def _why_not_guarded(mechanism: Mechanism) -> str:
    return loopback.why_not_guarded(project_users()) if mechanism.is_other_user else Probe().loopback_problem


def in_child(act: Callable[[], str]) -> str:
    """Return what ``act`` returns in a forked child, or its error."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = act()
        except OSError as error:
            answer = str(error)
        except BaseException:
            answer = traceback.format_exc()
        os.write(writer, answer.encode()[:4_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return data.decode(errors="replace") if code == 0 else f"the probe ended with {code}"


def _why_not_kept_in(sandbox: Sandbox, secret: Path, own: Path) -> str:
    enter(sandbox)
    (own / "written").write_text("x")
    for program in (ROOT / "workers" / "__init__.py", Path(os.__file__), Path(sys.executable)):
        program.read_bytes()
    try:
        secret.read_text()
    except OSError:
        return ""
    return "a file of the node can still be read"


def _why_not_alone() -> str:
    """Return what this process sees outside of its namespaces, or may do that the filter refuses."""
    if others := [one.name for one in Path("/proc").glob("[0-9]*") if int(one.name) not in (1, os.getpid())]:
        return f"processes outside are still seen ({len(others)})"
    try:
        unshare(CLONE_NEWUSER)
    except PermissionError:
        return ""
    return "new namespaces are still made"


if __name__ == "__main__":
    print(encode(Prober(Path(sys.argv[1])).probe()))
