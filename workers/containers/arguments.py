"""The words with which Podman is called: lists, which no shell reads.

A container gets no capability, no new privileges and Podman's filter of system calls; of the disk it sees its image,
the attempt's folders and the data. Values of variables come from a file, since others see the words of a process.
"""

import os
import resource
from collections.abc import Sequence

from workers.containers.documents import ContainerPlan, ContainerRuntime, ImagePlan

LABEL = "trainyard.attempt"  # holds the attempt's folder
OWNER = "trainyard.home"  # the node's home, of which leftovers are removed
MOST_FILES, MOST_PROCESSES = 1_048_576, 32_768  # Podman lowers its own limit of processes to about so many
NODE_VARIABLES = ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR", "REGISTRY_AUTH_FILE")
NODE_PREFIXES = ("CONTAINERS_", "STORAGE_")


def podman(runtime: ContainerRuntime, *words: str) -> list[str]:
    """Return a call of Podman by its own settings on this machine. No systemd is needed: control groups are made as
    files, and nothing is written into its journal."""
    own = ["--cgroup-manager", "cgroupfs", "--events-backend", "none"]
    return [runtime.program, *own, *(["--runtime", runtime.oci] if runtime.oci else []), *words]


def run_words(plan: ContainerPlan, command: Sequence[str], *, variables: str, pid_file: str = "") -> list[str]:
    """Return the call that runs ``command`` in the container. ``variables`` is the file with its environment."""
    words = ["run", "--rm", "--pull", "never", "--name", plan.name, "--label", f"{LABEL}={plan.folder}"]
    words += ["--label", f"{OWNER}={plan.home}"]
    words += ["--log-driver", "passthrough", "--workdir", plan.workdir, "--entrypoint", "", "--env-file", variables]
    words += ["--security-opt", "no-new-privileges", "--cap-drop", "all", "--hostname", os.uname().nodename]
    words += ["--pidfile", pid_file] if pid_file else []
    words += [*_limits(plan), *_namespaces(plan), *_mounts(plan)]
    for device in plan.devices:
        words += ["--device", device]
    return podman(plan.runtime, *words, plan.image, *command)


def exec_words(plan: ContainerPlan, command: Sequence[str], *, variables: str, is_terminal: bool) -> list[str]:
    words = ["exec", "--interactive", *(["--tty"] if is_terminal else []), "--workdir", plan.workdir]
    words += [*_user(plan), "--env-file", variables]
    return podman(plan.runtime, *words, plan.name, *command)


def remove_words(runtime: ContainerRuntime, names: Sequence[str]) -> list[str]:
    return podman(runtime, "rm", "--force", "--ignore", "--time", "0", *names)


def pull_words(plan: ImagePlan, runtime: ContainerRuntime, *, authorization: str = "") -> list[str]:
    """``authorization``: the file with the registry's credentials."""
    return podman(runtime, "pull", *(["--authfile", authorization] if authorization else []), plan.reference)


def build_words(plan: ImagePlan, runtime: ContainerRuntime, *, file: str, authorization: str = "") -> list[str]:
    """RUN lines have the machine's network, as the ranks have."""
    words = ["build", "--network", "host", "--file", file, "--tag", plan.tag, "--label", "trainyard=environment"]
    words += rlimit_words()
    words += ["--authfile", authorization] if authorization else []
    words += ["--pull-always"] if is_based_on_registry(plan.file) else []
    return podman(runtime, *words, plan.context)


def is_based_on_registry(containerfile: str) -> bool:
    """Return whether it begins from an image of a registry, which is asked for it with the project's own credentials:
    that another project's image of the name lies on the node opens it to nobody."""
    stages: set[str] = {"scratch"}
    for line in containerfile.splitlines():
        words = [word for word in line.split() if not word.startswith("--")]
        if len(words) < 2 or words[0].upper() != "FROM":
            continue
        if words[1] not in stages and not words[1].startswith("localhost/"):
            return True
        if len(words) > 3 and words[2].upper() == "AS":
            stages.add(words[3])
    return False


def _limits(plan: ContainerPlan) -> list[str]:
    """Return what the container may take. In the control group of its attempt it shares the limits of that."""
    words = rlimit_words(plan.processes)
    if plan.cgroup and plan.runtime.joins_groups:
        return [*words, "--cgroups", "disabled"]
    words += ["--pids-limit", str(plan.processes or -1)]
    if plan.cgroup:
        return [*words, "--cgroup-parent", plan.cgroup]
    words += ["--memory", str(plan.memory_bytes), "--memory-swap", str(plan.memory_bytes)] if plan.memory_bytes else []
    return [*words, *(["--cpus", f"{plan.cpus:g}"] if plan.cpus else [])]


def rlimit_words(processes: int = 0) -> list[str]:
    """Podman raises limits beyond ours, which a node without the capability for it may not: name what it may.
    ``processes``: of the user at most, 0 for no limit of ours."""
    words = []
    for name, kind, most in (
        ("nofile", resource.RLIMIT_NOFILE, MOST_FILES),
        ("nproc", resource.RLIMIT_NPROC, processes or MOST_PROCESSES),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = most if hard == resource.RLIM_INFINITY else min(hard, most)
        words += ["--ulimit", f"{name}={limit}:{limit}"]
    return words


def _namespaces(plan: ContainerPlan) -> list[str]:
    """Return the options of namespaces: the attempt's ranks share PID and IPC, as NCCL's shared memory needs."""
    words = ["--network", f"ns:/proc/{plan.holder}/ns/net" if plan.has_own_network and plan.holder else "host"]
    if plan.holder:
        words += ["--pid", f"ns:/proc/{plan.holder}/ns/pid", "--ipc", f"ns:/proc/{plan.holder}/ns/ipc"]
    elif plan.runtime.has_init:
        words.append("--init")
    return [*words, *_user(plan)]


def _user(plan: ContainerPlan) -> list[str]:
    return ["--user", f"{plan.user}:{plan.user}"] if plan.user >= 0 else []


def _mounts(plan: ContainerPlan) -> list[str]:
    words = [] if plan.user >= 0 or os.geteuid() == 0 else ["--userns", "keep-id"]
    mounts = [_mount(place, place, "true") for place in plan.shown if place not in plan.own]
    mounts += [_mount(place, place, "false") for place in plan.own]
    mounts += [_mount(plan.shared_memory, "/dev/shm", "false")] if plan.shared_memory else []
    return [*words, *(word for mount in mounts for word in ("--mount", mount))]


def _mount(source: str, target: str, read_only: str) -> str:
    return ",".join(_quoted(one) for one in ("type=bind", f"source={source}", f"target={target}", f"ro={read_only}"))


def _quoted(field: str) -> str:
    """Podman reads a mount as a line of CSV."""
    return '"' + field.replace('"', '""') + '"' if any(char in field for char in ',"\n') else field
