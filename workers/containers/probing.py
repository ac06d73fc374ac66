"""Tries whether Podman runs a container here, and with which program: on some machines its own choice cannot.

The container has no image: its root is an empty folder, into which the machine's programs are mounted.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from trainyard.contract.base import decode, encode
from workers.attempt.documents import read_document, write_document
from workers.containers.arguments import NODE_PREFIXES, NODE_VARIABLES, podman, rlimit_words
from workers.containers.documents import ContainerRuntime
from workers.machine.passed_variables import passed_variables

PODMAN, SETTING = "podman", "TRAINYARD_CONTAINERS"
OCI_PROGRAMS = ("crun", "runc")
OF_SYSTEM = ("/usr/sbin", "/sbin", "/usr/local/sbin")  # which the PATH of a node need not name
INITS = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/bin/catatonit")
LIMIT_S = 60.0
MOUNTED = ("/usr", "/bin", "/lib", "/lib64")
GROUPS = Path("/sys/fs/cgroup/cgroup.controllers")
MAX_CHARACTERS = 300


def find_podman(environment: Mapping[str, str]) -> str:
    """Return the path of Podman; empty where the node has none, is to use none (``TRAINYARD_CONTAINERS=off``), or is no
    root, who alone can run a rank as its project's user."""
    if environment.get(SETTING, "").lower() == "off" or os.geteuid() != 0:
        return ""
    return shutil.which(PODMAN, path=environment.get("PATH", os.defpath)) or ""


def podman_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the node that Podman gets: where its settings lie, proxies and certificates."""
    own = {name: value for name, value in environment.items() if name in NODE_VARIABLES}
    own |= {name: value for name, value in environment.items() if name.startswith(NODE_PREFIXES)}
    path = os.pathsep.join((environment.get("PATH", os.defpath), *OF_SYSTEM))
    return {**passed_variables(environment), "HOME": "/root" if os.geteuid() == 0 else "/", **own, "PATH": path}


def known_runtime(program: str, record: Path, environment: Mapping[str, str]) -> ContainerRuntime:
    """Return the runtime as it was tried before on this node, else try it. Raises OSError where it cannot be noted."""
    changed_at = Path(program).stat().st_mtime
    found = read_document(record, ContainerRuntime)
    if found is None or (found.program, found.changed_at) != (program, changed_at) or found.problem:
        found = try_out(ContainerRuntime(program=program, changed_at=changed_at), environment)
        record.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
        write_document(record, found)
    return found


def try_out(runtime: ContainerRuntime, environment: Mapping[str, str]) -> ContainerRuntime:
    """Return the runtime with the program that starts containers here, or with the problem of Podman's own choice."""
    problem = ""
    path = environment.get("PATH", os.defpath)
    for oci in ("", *filter(None, (shutil.which(name, path=path) for name in OCI_PROGRAMS))):
        tried = decode(encode(runtime), ContainerRuntime)
        tried.oci = oci
        if not (why := _why_not(tried, environment)):
            tried.has_init = any(map(os.path.exists, INITS))
            tried.joins_groups = GROUPS.exists() and not _why_not(tried, environment, "--cgroups", "disabled")
            return tried
        problem = problem or why
    runtime.problem = problem
    return runtime


def _why_not(runtime: ContainerRuntime, environment: Mapping[str, str], *more: str) -> str:
    """Return why no container runs, as Podman's last line says it; empty where one does."""
    with tempfile.TemporaryDirectory(prefix="ty-probe-") as root:
        mounts = []
        for place in map(Path, MOUNTED):
            inside = Path(root, *place.parts[1:])
            if place.is_symlink():
                inside.symlink_to(place.readlink())
            elif place.is_dir():
                inside.mkdir()
                mounts += ["--volume", f"{place}:{place}:ro"]
        words = ["run", "--rm", "--network", "host", "--entrypoint", "", *rlimit_words(), *more, *mounts]
        words += ["--rootfs", root, "/usr/bin/true"]
        try:
            answer = subprocess.run(
                podman(runtime, *words), env=dict(environment), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace", timeout=LIMIT_S, cwd="/",
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)[:MAX_CHARACTERS]
        if answer.returncode == 0:
            return ""
        lines = answer.stderr.strip().splitlines() or [f"podman ended with exit code {answer.returncode}"]
        return lines[-1].removeprefix("Error: ")[:MAX_CHARACTERS]
