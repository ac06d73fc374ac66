"""Documents by which a process starts a container, or finds or builds its image; and names of containers."""

from pathlib import Path

from trainyard.contract.base import WireStruct
from trainyard.contract.orders import Order

SHARED = Path("/dev/shm")
SHARED_MEMORY = "ty-ranks-"  # begins the names of folders there; the attempt follows


class ContainerRuntime(WireStruct, kw_only=True):
    """The node's Podman, as it was tried. ``problem``: why it runs no container here, as a sentence."""

    program: str = ""  # path of podman
    changed_at: float = 0.0  # when the program was, in Unix seconds: another one is tried anew
    oci: str = ""  # path of the program that starts containers for it; empty is Podman's own choice
    has_init: bool = False  # it can put a process 1 of its own into a container
    joins_groups: bool = False  # containers stay in the control group of who starts them
    problem: str = ""


class ImagePlan(WireStruct, kw_only=True):
    """One image to be had. Either ``reference`` is set, of a registry or an archive, or ``file``, to build from."""

    program: str  # path of podman
    record: str  # file of the node's ContainerRuntime
    work: str  # folder for this image alone, which nobody else reads
    reference: str = ""
    file: str = ""  # text of the Containerfile
    context: str = ""  # the folder that it copies from
    tag: str = ""  # of the image that is built
    credentials: str = ""  # USER:PASSWORD of the registry
    environment: dict[str, str] = {}  # variables of the node that pass


class ContainerImage(WireStruct, kw_only=True):
    id: str
    digest: str = ""  # under which a registry has it
    bytes: int = 0


class ContainerPlan(WireStruct, kw_only=True):
    """The container of one rank. Paths are the same inside as outside."""

    runtime: ContainerRuntime
    name: str
    image: str  # id
    attempt: str
    folder: str  # of the attempt, by which leftovers are found
    home: str  # of the node, whose leftovers they are
    workdir: str
    shared_memory: str = ""  # the folder that the ranks of the attempt share as /dev/shm
    user: int = -1  # -1: the node's own
    holder: int = 0  # whose PID and IPC namespaces it joins
    own: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    cgroup: str = ""  # control group for the container
    memory_bytes: int = 0  # where no control group of the attempt limits it; 0: no limit
    cpus: float = 0.0
    processes: int = 0
    has_own_network: bool = False
    environment: dict[str, str] = {}  # of Podman itself


# Names of containers.


def container_name(order: Order, local_rank: int) -> str:
    return f"trainyard-{order.attempt}-{order.first_rank + local_rank}"


def is_of(name: str, wanted: str) -> bool:
    """Return whether a whole name is what somebody wrote, with or without the registry."""
    return name == wanted or name.endswith(f"/{wanted}")


def with_tag(name: str) -> str:
    """Return the name of an image with the tag that Podman adds where there is none."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
