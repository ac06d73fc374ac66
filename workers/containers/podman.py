"""Whether Podman runs a container here, and with which program; and removal of what it leaves behind.

The container has no image: its root is an empty folder, into which the machine's programs are mounted.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from trainyard.contract.base import decode, encode
from trainyard.spooling.held_folder import remove_tree
from workers.attempt.documents import read_document, write_document
from workers.attempt.folder import AttemptFolder, attempts_in
from workers.containers.arguments import LABEL, NODE_PREFIXES, NODE_VARIABLES, OWNER, podman, remove_words, rlimit_words
from workers.containers.documents import SHARED, SHARED_MEMORY, ContainerRuntime, is_of, with_tag
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


log = structlog.get_logger(__name__)


def remove_image(program: str, image: str, names: Sequence[str] = ()) -> None:
    """Remove an image from the node, which has ``names`` for our sake. It stays where a container uses it, or where it
    has a tag besides that somebody else gave it."""
    runtime = ContainerRuntime(program=program)
    if not program or (names and not _is_ours_alone(runtime, image, names)):
        return
    # An archive's has no names of ours: then Podman itself refuses what is in use, or has several names.
    if call(podman(runtime, "image", "rm", *(["--force"] if names else []), image)) is not None:
        log.info("image.evicted", image=image[:12])


def _is_ours_alone(runtime: ContainerRuntime, image: str, names: Sequence[str]) -> bool:
    found = call(podman(runtime, "image", "inspect", "--format", "json", image))
    users = call(podman(runtime, "ps", "--all", "--quiet", "--filter", f"ancestor={image}"))
    if found is None or users is None or users.strip():
        return False
    tags = {str(tag) for tag in json.loads(found)[0].get("RepoTags") or []}
    return not {tag for tag in tags if not any(is_of(tag, with_tag(name)) for name in names)}


def remove_leftovers(program: str, home: Path) -> None:
    """Remove the containers and the shared memory of attempts that have no supervisor any more."""
    if not (home / "environments" / "containers.json").exists():
        return  # no container ever ran here
    runtime = ContainerRuntime(program=program)
    listed = call(podman(runtime, "ps", "--all", "--filter", f"label={OWNER}={home}", "--format", "json"))
    left = [str(one["Names"][0]) for one in json.loads(listed or "[]") if _is_over(one.get("Labels") or {})]
    if left:
        call(remove_words(runtime, left))
        log.warning("containers.leftover", names=left)
    over = {folder.attempt for folder in attempts_in(home) if folder.lock_holder() is None}
    for path in SHARED.glob(f"{SHARED_MEMORY}*"):
        if path.name.removeprefix(SHARED_MEMORY).partition("-")[0] in over:
            remove_tree(path)


def _is_over(labels: dict[str, str]) -> bool:
    return AttemptFolder(Path(labels.get(LABEL, "/nowhere"))).lock_holder() is None


def call(words: list[str], environment: Mapping[str, str] | None = None) -> str | None:
    """Return what Podman prints; None where it fails. ``environment``: its own, where this process has another."""
    try:
        answer = subprocess.run(
            words, env=podman_environment(os.environ) if environment is None else environment, cwd="/", check=True,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LIMIT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("podman.failed", words=words[1:], error=str(error)[:300])
        return None
    return answer.stdout
