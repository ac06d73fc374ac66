"""The environment of a rank in a container, and the file in which Podman gets it, made as the ranks' user."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from trainyard.contract.calls import GivenSecret
from workers.containers.documents import ContainerPlan

# Of the node's own variables these name files or programs of the machine, which an image does not have.
OF_THE_MACHINE = frozenset(
    (
        *("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    )
)


class SeveralLines(ValueError):
    """A variable that Podman cannot be given. The message is a sentence."""


def container_variables(environment: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return a rank's environment without what is the machine's. What the task sets (``own``) stays."""
    return {name: value for name, value in environment.items() if name not in OF_THE_MACHINE or name in own}


def variables_file(environment: Mapping[str, str]) -> str:
    """Return the path of a file in memory, open in this process and in the program that it becomes. Raises
    SeveralLines."""
    lines = []
    for name, value in environment.items():
        if "\n" in value:
            words = "give it as a file (file:NAME of task.secrets, or a file of the code)."
            raise SeveralLines(f"{name} has several lines, which no variable of a container can: {words}")
        lines.append(f"{name}={value}\n")
    descriptor = os.memfd_create("environment", 0)  # 0: it stays open in a program that is started
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write("".join(lines).encode())
    return f"/proc/self/fd/{descriptor}"


def variables_in_container(secrets: Sequence[GivenSecret], plan: ContainerPlan) -> dict[str, str]:
    """Return the variables of a rank's secrets. A file is one of the shared memory, which goes with the attempt."""
    found = {one.variable: one.value for one in secrets if not one.is_file}
    for one in secrets:
        if one.is_file:
            path = Path(plan.shared_memory, f"{plan.name}-{one.variable}")
            with os.fdopen(opened_by_user(path, plan.user, os.O_WRONLY | os.O_EXCL), "w") as file:
                file.write(one.value)
            found[one.variable] = f"/dev/shm/{path.name}"
    return found


# Does something as the Unix user of a project's ranks, in a process that stays root.


@contextmanager
def as_user(user: int) -> Iterator[None]:
    """Open and make files as this user would; as who we are where it is below 0. Call it while the process has one
    thread."""
    if user < 0 or os.geteuid() != 0:
        yield
        return
    group, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def opened_by_user(path: Path, user: int, flags: int) -> int:
    """Return a descriptor of a file in a folder of the user's, made as they would. The folders on the way need not be
    open to them. A link is refused."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with as_user(user):
            return os.open(path.name, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
