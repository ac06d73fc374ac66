"""``python -m workers.sandbox.probe HOME``: which sandbox this machine allows, found out by entering each.

Prints one JSON document, and takes a tenth of a second.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
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


def probe(home: Path) -> Probe:
    """Try sandboxes on a folder below ``home`` with a secret in it."""
    is_root, refused = os.geteuid() == 0, ""
    for mechanism in (Mechanism.USER_AND_NAMESPACE, Mechanism.USER) if is_root else (Mechanism.NAMESPACE,):
        if why := _why_not(home, mechanism, _enter):
            refused = why
            continue
        if mechanism == Mechanism.USER_AND_NAMESPACE:
            if not (why := _why_not(home, mechanism, _enter_namespaces)):
                return Probe(mechanism, SandboxLevel.NAMESPACES, loopback_problem=_why_not_guarded(mechanism))
            missing = NO_NAMESPACES.format(why=why)
        else:
            missing = NO_VIEW.format(why=refused) if is_root else NOT_ROOT
        return Probe(mechanism, SandboxLevel.USER, (missing,), _why_not_guarded(mechanism))
    return Probe(missing=(NO_LEVEL_1.format(why=refused),))


def _why_not(home: Path, mechanism: Mechanism, try_out: Callable[[Sandbox, Path, Path], str]) -> str:
    with tempfile.TemporaryDirectory(prefix=".probe-", dir=home) as folder:
        secret, own = Path(folder) / "secret", Path(folder) / "own"
        secret.write_text("x")
        secret.chmod(0o600)
        own.mkdir()
        try:
            return try_out(Isolation(mechanism, (os.fspath(home),)).sandbox("probe", own=[own]), secret, own)
        except OSError as error:
            return str(error)


def _enter(sandbox: Sandbox, secret: Path, own: Path) -> str:
    return in_child(lambda: _why_not_kept_in(sandbox, secret, own))


def _enter_namespaces(sandbox: Sandbox, secret: Path, own: Path) -> str:
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
    print(encode(probe(Path(sys.argv[1]))))
