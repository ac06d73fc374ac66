"""Signs of a cause: the texts that PyTorch, NCCL, gloo, CUDA and the kernel write, each with its class.

The texts are those of PyTorch 2.13, NCCL 2.28 and gloo. The first sign that a text has counts, so the special ones
stand before the general ones.
"""

import re
from enum import IntEnum
from typing import NamedTuple

from trainyard.contract.causes import CauseClass

MAX_CHARACTERS = 200
PLACE = re.compile(
    r"^(?:\[rank\d+\]:\s*)?(?:\[[^\]]*\.(?:cc|cpp|h|hpp):\d+\]\s*(?:\.\s*|err == 0\.\s*)?|what\(\):\s*)+"
)
PREFIX = re.compile(r"^\[[^\]]*\b(?:Rank|rank) ?\d+\]:?\s*(?=\S)|^\(\w+ pid=[^()]*\) ")
ADVICE = re.compile(r"\.?\s*(?:This is typically caused by|Check the logs of|GLHF).*", re.S)
RAYS = re.compile(r"^\((?:raylet|autoscaler|.*?\bpid=\w+)\b[^()\n]*\).*\n?", re.M)  # Ray copies them of its others
ALLOCATION = re.compile(r"[Tt]ried to allocate [\d.,]+ \w+")


class Standing(IntEnum):
    """Distance of a failure from the cause of all. A nearer one is the cause, even where a node noticed it later."""

    OWN = 0  # it happened to this process itself
    SILENT = 1  # a node is out of contact: what happened there is not known
    WAITED = 2  # another rank did not come in time
    DISCONNECTED = 3  # the connection to another rank broke
    ENDED = 4  # its node ended it, since something else had failed


class Sign(NamedTuple):
    cause_class: CauseClass
    words: str  # what happened to the rank; {what} is what the library wrote
    standing: Standing = Standing.OWN


GPU_MEMORY = Sign(CauseClass.GPU_OUT_OF_MEMORY, "ran out of GPU memory ({what}).")
MEMORY = Sign(CauseClass.OUT_OF_MEMORY, "ran out of memory ({what}).")
SHARED_MEMORY = Sign(CauseClass.OUT_OF_MEMORY, "ran out of shared memory ({what}).")
DISK = Sign(CauseClass.DISK_FULL, "found the disk full ({what}).")
GPU = Sign(CauseClass.GPU_FAULT, "failed with a fault of its GPU ({what}).")
CUDA_CODE = Sign(CauseClass.USER_ERROR, "failed in its CUDA code ({what}).")
LATE_PEER = Sign(CauseClass.COLLECTIVE_TIMEOUT, "waited in vain for another rank ({what}).", Standing.WAITED)
LOST_PEER = Sign(CauseClass.NETWORK, "lost its connection to another rank ({what}).", Standing.DISCONNECTED)
PORT_TAKEN = Sign(CauseClass.NETWORK, "found its port taken ({what}).")
NCCL_USAGE = Sign(CauseClass.USER_ERROR, "used NCCL wrongly ({what}).")
NCCL_BUG = Sign(CauseClass.UNKNOWN, "failed inside NCCL ({what}).", Standing.DISCONNECTED)
LOADER = Sign(CauseClass.KILLED, "lost a worker of its DataLoader ({what}).")
PROCESS = Sign(CauseClass.KILLED, "lost a process ({what}).")
ACTOR = Sign(CauseClass.KILLED, "lost a process of Ray ({what}).")
NO_MPI = Sign(CauseClass.USER_ERROR, "found no library of MPI ({what}): environment.requirements may name mpich.")
STORAGE = Sign(CauseClass.STORAGE, "could not write or read a file ({what}).")

SIGNS: tuple[tuple[re.Pattern[str], Sign], ...] = tuple(
    (re.compile(pattern, re.I), sign)
    for pattern, sign in (
        (r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory", GPU_MEMORY),
        (r"CUBLAS_STATUS_ALLOC_FAILED|Cuda failure.*out of memory|CUDA_ERROR_OUT_OF_MEMORY", GPU_MEMORY),
        (r"insufficient shared memory|out of shared memory|shared memory\(shm\)|</torch_\d+|/dev/shm/", SHARED_MEMORY),
        (r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]", DISK),
        (r"can't allocate memory|\bMemoryError\b|Cannot allocate memory|\[Errno 12\]|std::bad_alloc", MEMORY),
        (r"DataLoader worker \(pid.*(?:killed by signal|exited unexpectedly)", LOADER),
        (r"ExecutorLostFailure \(|Trainyard: Spark's |Signal \d+ \(SIG\w+\) received by PID", PROCESS),
        (r"The (?:actor|worker) died unexpectedly", ACTOR),
        (r"uncorrectable (?:ECC|NVLink) error|\bXid\b.*\d|fallen off the bus|CUDA_ERROR_ECC", GPU),
        (r"unspecified launch failure|CUDA error: (?:unknown error|hardware stack error)", GPU),
        (r"CUDA-capable devices? (?:is|are) (?:busy|detected)|no CUDA-capable device", GPU),
        (r"device-side assert triggered|illegal memory access|CUDA error: invalid", CUDA_CODE),
        (r"ncclInvalidUsage|ncclInvalidArgument", NCCL_USAGE),
        (r"ncclUnhandledCudaError|unhandled cuda error", GPU),
        (r"collective operation timeout|Timed out waiting \d+ ?ms for|timeout caused pair closure", LATE_PEER),
        (r"Timed out after .*waiting for clients|wait timeout after|Socket Timeout|monitoredBarrier", LATE_PEER),
        (r"EADDRINUSE|Address already in use|\[Errno 98\]", PORT_TAKEN),
        (r"gloo/transport/.*(?:closed|reset|refused|broken|error|timed out)|connectFullMesh failed", LOST_PEER),
        (r"caused by a remote worker|ncclRemoteError|remote process exited|ncclSystemError", LOST_PEER),
        (r"NCCL communicator was aborted|Connection to .*store.* (?:lost|closed)|unhandled system error", LOST_PEER),
        (r"Dist(?:Network|Store)Error", LOST_PEER),
        (r"ncclInternalError", NCCL_BUG),
        (r"cannot load MPI library|libmpi\S*: cannot open shared object file", NO_MPI),
        (r"Parent directory .* does not exist|failed writing file|file write failed", STORAGE),
        (r"PytorchStream(?:Writer|Reader)|inline_container\.cc|CheckpointException|SafetensorError", STORAGE),
        (r"\[Errno (?:5|30|116)\]|Input/output error|Read-only file system|Stale file handle", STORAGE),
    )
)


class FoundSign(NamedTuple):
    sign: Sign
    what: str  # the line that shows it, shortened


def find_sign(text: str) -> FoundSign | None:
    """Return the first sign of SIGNS that ``text`` has: an error's type and message, or the last lines of a log."""
    for pattern, sign in SIGNS:
        if match := pattern.search(text):
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.start())
            return FoundSign(sign, shortened(text[start : end if end >= 0 else None], sign))
    return None


def shortened(line: str, sign: Sign | None = None) -> str:
    """Return a line of a library without its place in the source, and without advice."""
    if sign is GPU_MEMORY and (allocation := ALLOCATION.search(line)):
        return allocation[0][0].lower() + allocation[0][1:]
    line = PREFIX.sub("", PLACE.sub("", line.strip()))
    return ADVICE.sub("", PREFIX.sub("", PLACE.sub("", line))).strip().rstrip(". ")[:MAX_CHARACTERS]
