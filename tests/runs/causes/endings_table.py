"""Real endings: what the kernel, Python, PyTorch, gloo, NCCL and CUDA leave of a rank, and the class that it must get.

Those of gloo, of the store, of DataLoader, of files and of memory were taken from processes of PyTorch 2.13 that were
broken on purpose; those of CUDA and NCCL are what their libraries and PyTorch print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trainyard.contract.causes import CauseClass

GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/"
HANGING = (
    " This is typically caused by a remote worker hanging or bugs in the application. Check the logs of the remote "
    "worker before reporting an error. GLHF! \N{BEACH WITH UMBRELLA}\N{VARIATION SELECTOR-16}"
)
CUDA_ADVICE = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions.\n"
)
WATCHDOG = (
    "[rank0]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 600060 "
    "milliseconds before timing out."
)
TERMINATE = "terminate called after throwing an instance of 'c10::DistBackendError'"
NCCL = "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, "
CORRUPT = (
    "PytorchStreamReader failed reading zip archive: failed finding central directory. This is an internal miniz "
    "error. If you are seeing this error, there is a high likelihood that your checkpoint file is corrupted."
)
CUDA_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.41 GiB is "
    "free. Including non-PyTorch memory, this process has 77.73 GiB memory in use."
)
LOADER = "Caught FileNotFoundError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n..."
NO_SHARD = "[Errno 2] No such file or directory: '/data/shard-0001.bin'"
PORT = (
    "The server socket has failed to listen on any local network address. port: 29777, useIpv6: false, code: -98, "
    "name: EADDRINUSE, message: address already in use"
)


class Ending(NamedTuple):
    name: str
    cause_class: CauseClass
    words: str  # in the sentence
    rank: dict[str, Any]  # the fields of its report
    stderr: Sequence[str] = ()
    is_disk_full: bool = False


def error(kind: str, message: str, trace: str = "") -> dict[str, Any]:
    return {"exit_code": 1, "error": {"type": kind, "message": message, "traceback": trace or None}}


def killed(number: int, **more: Any) -> dict[str, Any]:
    return {"exit_code": None, "signal": number, **more}


def nccl(short: str, name: str, long: str) -> dict[str, Any]:
    return error("DistBackendError", f"{NCCL}{short}, NCCL version 2.28.8\n{name}: {long}")


GPU_OOM, OOM, KILLED = CauseClass.GPU_OUT_OF_MEMORY, CauseClass.OUT_OF_MEMORY, CauseClass.KILLED
NETWORK, TIMEOUT, GPU = CauseClass.NETWORK, CauseClass.COLLECTIVE_TIMEOUT, CauseClass.GPU_FAULT
UNFIT, USER, DATA, STORAGE, DISK = (
    CauseClass.NODE_UNFIT,
    CauseClass.USER_ERROR,
    CauseClass.DATA_PROBLEM,
    CauseClass.STORAGE,
    CauseClass.DISK_FULL,
)

MEMORY = [
    Ending("CUDA out of memory", GPU_OOM, "ran out of GPU memory (tried to allocate 2.00 GiB).",
           error("OutOfMemoryError", CUDA_MEMORY)),
    Ending("CUDA error: out of memory", GPU_OOM, "ran out of GPU memory (CUDA error: out of memory",
           error("AcceleratorError", f"CUDA error: out of memory{CUDA_ADVICE}")),
    Ending("NCCL finds no GPU memory", GPU_OOM, "ran out of GPU memory (Cuda failure 2",
           nccl("unhandled cuda error", "ncclUnhandledCudaError",
                "Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'")),
    Ending("the CPU's allocator", OOM, "ran out of memory (DefaultCPUAllocator: can't allocate memory: you tried",
           error("RuntimeError", "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
                 "memory: you tried to allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)")),
    Ending("MemoryError", OOM, "ran out of memory (MemoryError).", error("MemoryError", "")),
    Ending("MemoryError of numpy", OOM, "ran out of memory (Unable to allocate 7.11 PiB for an array",
           error("MemoryError", "Unable to allocate 7.11 PiB for an array with shape (1000000000000000,)")),
    Ending("SIGKILL and oom_kill", OOM, "was killed by the kernel, since memory ran out (SIGKILL).",
           killed(9, oom_killed=True)),
    Ending("no room in /dev/shm", OOM, "ran out of shared memory (unable to write to file",
           error("RuntimeError", "unable to write to file </torch_4242_1234567_0>: No space left on device (28)")),
    Ending("a loader's worker and oom_kill", OOM, "lost a worker of its DataLoader (DataLoader worker (pid(s) 78",
           {**error("RuntimeError", "DataLoader worker (pid(s) 7821) exited unexpectedly"), "oom_killed": True}),
    Ending("a loader's bus error", OOM, "ran out of shared memory (DataLoader worker",
           error("RuntimeError", "DataLoader worker (pid 7821) is killed by signal: Bus error. It is possible that "
                 "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.")),
    Ending("a bus error in a loader's worker", OOM, "ran out of shared memory (ERROR: Unexpected bus error",
           killed(6), ["ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
                       "shared memory (shm)."]),
]  # fmt: skip
SIGNALS = [
    Ending("SIGKILL", KILLED, "was killed by SIGKILL (9).", killed(9)),
    Ending("SIGTERM from outside", KILLED, "was killed by SIGTERM (15).", killed(15)),
    Ending("SIGSEGV", KILLED, "was killed by SIGSEGV (11).", killed(11)),
    Ending("SIGBUS", KILLED, "was killed by SIGBUS (7).", killed(7)),
    Ending("SIGABRT without a word", KILLED, "was killed by SIGABRT (6).", killed(6)),
    Ending("a loader's worker by signal", KILLED, "lost a worker of its DataLoader (DataLoader worker (pid",
           error("RuntimeError", "DataLoader worker (pid 7821) is killed by signal: Killed. ")),
    Ending("a shell's child was killed", KILLED, "ended with exit code 137, as after SIGKILL (9).",
           {"exit_code": 137}),
    Ending("KeyboardInterrupt", KILLED, "was interrupted by SIGINT (2).", error("KeyboardInterrupt", "")),
]  # fmt: skip
CONNECTIONS = [
    Ending("gloo: reset", NETWORK, "lost its connection to another rank (Read error [127.0.0.1]:48278: Connection res",
           error("RuntimeError",
                 f"{GLOO}pair.cc:537] Read error [127.0.0.1]:48278: Connection reset by peer.{HANGING}")),
    Ending("gloo: closed", NETWORK, "lost its connection to another rank (Connection closed by peer [127.0.0.1]:42",
           error("RuntimeError", f"{GLOO}pair.cc:553] Connection closed by peer [127.0.0.1]:42665.{HANGING}")),
    Ending("gloo: timed out", TIMEOUT, "waited in vain for another rank (Timed out waiting 3000ms for recv operation",
           error("RuntimeError",
                 f"{GLOO}unbound_buffer.cc:78] Timed out waiting 3000ms for recv operation to complete")),
    Ending("a monitored barrier", TIMEOUT, "waited in vain for another rank (",
           error("RuntimeError", "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms\n Original exception: \n"
                 f"{GLOO}unbound_buffer.cc:78] Timed out waiting 1998ms for recv operation to complete")),
    Ending("NCCL's watchdog", TIMEOUT, "waited in vain for another rank (Watchdog caught collective operation timeout",
           killed(6), [WATCHDOG, TERMINATE, f"  what():  [PG 0 Rank 0] Process group watchdog thread: {WATCHDOG}"]),
    Ending("NCCL's watchdog as an error", TIMEOUT, "waited in vain for another rank (Watchdog caught",
           error("DistBackendError", WATCHDOG)),
    Ending("ncclRemoteError", NETWORK, "lost its connection to another rank (",
           nccl("remote process exited or there was a network error", "ncclRemoteError",
                "A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\n"
                "socketProgressOpt: Call to recv from 172.16.0.9<33759> failed : Connection reset by peer")),
    Ending("ncclSystemError", NETWORK, "lost its connection to another rank (",
           nccl("unhandled system error", "ncclSystemError",
                "System call (e.g. socket, malloc) or external library call failed or device error.")),
    Ending("a rank that never came", TIMEOUT, "waited in vain for another rank (Timed out after 4 seconds waiting",
           error("DistStoreError", "Timed out after 4 seconds waiting for clients. 1/2 clients joined.")),
    Ending("a key that never came", TIMEOUT, "waited in vain for another rank (wait timeout after 1000ms",
           error("DistStoreError", "wait timeout after 1000ms, keys: /x")),
    Ending("a store that nobody serves", NETWORK, "lost its connection to another rank (The client socket has timed",
           error("DistNetworkError", "The client socket has timed out after 3000ms while trying to connect to "
                 "(127.0.0.1, 40997).")),
    Ending("the store's port is taken", NETWORK, "found its port taken (The server socket has failed",
           error("DistNetworkError", PORT)),
    Ending("a script's port is taken", NETWORK, "found its port taken ([Errno 98] Address already in use).",
           error("OSError", "[Errno 98] Address already in use")),
]  # fmt: skip
GPUS = [
    Ending("ECC", GPU, "failed with a fault of its GPU (CUDA error: uncorrectable ECC error encountered).",
           error("AcceleratorError", f"CUDA error: uncorrectable ECC error encountered{CUDA_ADVICE}")),
    Ending("ECC found by the watchdog", GPU, "failed with a fault of its GPU (",
           killed(6), [TERMINATE, "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread "
                       "terminated with exception: CUDA error: uncorrectable ECC error encountered"]),
    Ending("a GPU that is gone", GPU, "failed with a fault of its GPU (",
           error("RuntimeError", "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.")),
    Ending("a launch failed", GPU, "failed with a fault of its GPU (CUDA error: unspecified launch failure).",
           error("AcceleratorError", f"CUDA error: unspecified launch failure{CUDA_ADVICE}")),
    Ending("ncclUnhandledCudaError", GPU, "failed with a fault of its GPU (",
           nccl("unhandled cuda error", "ncclUnhandledCudaError", "Call to CUDA function failed.")),
    Ending("a device-side assert", USER, "failed in its CUDA code (CUDA error: device-side assert triggered).",
           error("AcceleratorError", f"CUDA error: device-side assert triggered{CUDA_ADVICE}")),
    Ending("a wrong address", USER, "failed in its CUDA code (CUDA error: an illegal memory access was encountered).",
           error("AcceleratorError", f"CUDA error: an illegal memory access was encountered{CUDA_ADVICE}")),
    Ending("ncclInvalidUsage", USER, "used NCCL wrongly (ncclInvalidUsage: This usually reflects invalid usage",
           nccl("invalid usage", "ncclInvalidUsage", "This usually reflects invalid usage of NCCL library.")),
]  # fmt: skip
FILES = [
    Ending("ENOSPC", DISK, "found the disk full ([Errno 28] No space left on device).",
           error("OSError", "[Errno 28] No space left on device")),
    Ending("torch.save on a full disk", DISK, ", whose disk was full, could not write or read a file (unexpected pos",
           error("RuntimeError", "[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598"), (), True),
    Ending("torch.save failed", STORAGE, "could not write or read a file (unexpected pos 704 vs 598).",
           error("RuntimeError", "[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")),
    Ending("torch.save into no folder", STORAGE, "could not write or read a file (Parent directory /nonexistent does",
           error("RuntimeError", "Parent directory /nonexistent does not exist.")),
    Ending("a torn checkpoint", STORAGE, "could not write or read a file (PytorchStreamReader failed reading zip",
           error("RuntimeError", CORRUPT)),
    Ending("a disk that fails", STORAGE, "could not write or read a file ([Errno 5] Input/output error: '/data/x').",
           error("OSError", "[Errno 5] Input/output error: '/data/x'")),
    Ending("a data file is missing", UNFIT, f"failed with FileNotFoundError: {NO_SHARD}",
           error("FileNotFoundError", LOADER, f"FileNotFoundError: {LOADER}\nFileNotFoundError: {NO_SHARD}\n")),
    Ending("sys.exit with a text", USER, "ended with exit code 1: no shard was given.", {"exit_code": 1},
           ["a warning", "no shard was given"]),
    Ending("KeyboardInterrupt of its own", USER, "raised KeyboardInterrupt in its own code.",
           killed(2), ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>',
                       "    raise KeyboardInterrupt", "KeyboardInterrupt"]),
    Ending("KeyboardInterrupt of its own in a process group", USER, "raised KeyboardInterrupt in its own code.",
           killed(2), ["[rank0]: Traceback (most recent call last):", '[rank0]:   File "train.py", line 3, in <module>',
                       "[rank0]:     raise KeyboardInterrupt", "[rank0]: KeyboardInterrupt"]),
    Ending("the cache of the node is too small", UNFIT, "cannot use its data: the cache /c would take 2 GiB",
           error("NodeDataProblem", "the cache /c would take 2 GiB")),
    Ending("another rank has no data", DATA, "stopped, since another rank cannot use its data: rank 1: the cache",
           error("OthersDataProblem", "rank 1: the cache /c is full")),
    Ending("DataProblem", DATA, "cannot use its data: No column is named x.",
           error("DataProblem", "No column is named x.")),
]  # fmt: skip
USERS = [
    Ending("an exception", USER, "failed with ValueError: no such layer", error("ValueError", "no such layer\nmore")),
    Ending("ImportError", USER, "failed with ModuleNotFoundError: No module named 'apex'",
           error("ModuleNotFoundError", "No module named 'apex'")),
    Ending("SystemExit", USER, "ended with exit code 3.", {"exit_code": 3}),
    Ending("words that argparse refuses", USER, "ended with exit code 2: train.py: error: unrecognized arguments: --lr",
           {"exit_code": 2}, ["usage: train.py [-h]", "train.py: error: unrecognized arguments: --lr 3", ""]),
    Ending("words that click refuses", USER, "ended with exit code 2: Error: No such option: --lr.",
           {"exit_code": 2}, ["Usage: train.py [OPTIONS]", "", "Error: No such option: --lr"]),
    Ending("exit code 2 with other words", USER, "ended with exit code 2.",
           {"exit_code": 2}, ["error: none of argparse", "bye"]),
]  # fmt: skip
RANKS = [*MEMORY, *SIGNALS, *CONNECTIONS, *GPUS, *FILES, *USERS]
