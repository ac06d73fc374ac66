"""A thread of a rank that looks once a second at how far the rank's collectives are, for its supervisor.

It starts once torch's process group exists, and costs a step nothing. While no collective begins, it writes down which
one the rank waits in and where its main thread is. torch's flight recorder knows the first, on gloo as on NCCL.

Cold ranks load this file in an interpreter that has none of our packages: it uses Python's own library alone.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workers.progress.marker import Marker

EVERY_S = 1.0
DESCRIBED_EVERY = 2  # samples without a new collective, between two descriptions
PROBES = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 100}  # seconds, and how many end the connection
MAX_FRAMES = 40
MAX_CHARACTERS = 6_000  # of a stack
C10D = "torch.distributed.distributed_c10d"
RECORDERS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
ROOT = Path(__file__).resolve().parents[2]
# Frames that say nothing about where a training is.
LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
BESIDE = (f"{ROOT}/workers/rank_process", f"{ROOT}/workers/training/measuring", "<frozen", *LIBRARIES)
COMPILERS = ("torch/_dynamo/convert_frame.py", "torch/_inductor/")


def start_sampler(mark: Marker, folder: Path, after: Callable[[], object] | None = None) -> None:
    """Start the thread, which calls ``after`` behind each sample. ``folder`` is the user's code, of which lines are
    named. It is none of ``threading``'s, so that a script that counts its threads does not find it."""
    with contextlib.suppress(RuntimeError):  # no thread is to be had: the training is worth more
        _thread.start_new_thread(_sample_for_ever, (mark, folder, after))


def _sample_for_ever(mark: Marker, folder: Path, after: Callable[[], object] | None) -> None:
    sampler = Sampler(mark, folder)
    while True:
        time.sleep(EVERY_S)
        try:
            sampler.sample()
        except Exception as error:  # torch's inner names change; then nothing is known of collectives
            mark.write_text(b"")
            sampler.problem = repr(error)
        if after is not None:
            after()


class Sampler:
    def __init__(self, mark: Marker, folder: Path) -> None:
        self._mark, self._folder = mark, folder
        self._num_still = 0
        self.problem = ""

    def sample(self) -> None:
        if self._mark.set_entered(sum(sequences().values())):
            self._num_still = 0
            self._mark.write_text(b"")
            return
        self._num_still += 1
        if self._num_still == DESCRIBED_EVERY:
            probe_connections()
        if self._num_still % DESCRIBED_EVERY == 0:
            self._mark.write_text(fitting(describe(self._folder), self._mark.room))


def probe_connections() -> None:
    """Let the kernel ask each second whether the far ends of this process's connections are there.

    Who only waits for bytes has sent nothing that could stay unacknowledged: without these probes nothing tells a
    machine that has lost its power from one that is at work. What asks already is left as it is.
    """
    for held in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            if not str(held.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(held.name))) as found:
                is_tcp = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
                if is_tcp and not found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
                    for option, value in PROBES.items():
                        found.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def fitting(written: dict[str, Any], room: int) -> bytes:
    """Return the description as JSON of at most ``room`` bytes."""
    text = json.dumps(written).encode()
    if len(text) > room:
        text = json.dumps({"line": written["line"][:200]}).encode()
    return text if len(text) <= room else b""


def sequences() -> dict[str, int]:
    """Return by process group how many collectives this rank has entered."""
    found: dict[str, int] = {}
    module = sys.modules.get(C10D)
    for group, name in list(module._world.pg_names.items()) if module is not None else []:
        with contextlib.suppress(RuntimeError):  # a backend that counts none
            found[str(name)] = int(group._get_sequence_number_for_group())
    return found


def describe(folder: Path) -> dict[str, Any]:
    """Return where this rank is, seen from another thread than its main one, as ``Description`` is read."""
    main = threading.main_thread().ident
    frames = list(_frames(sys._current_frames().get(main) if main is not None else None))
    return {
        "collective": pending_collective(),
        "entered": sequences(),
        "line": line_of(frames, folder),
        "stack": stack_of(frames),
        "is_compiling": any(name in one.f_code.co_filename for one in frames for name in COMPILERS),
    }


def pending_collective() -> dict[str, Any] | None:
    """Return the oldest collective that this rank has entered and not left, as ``PendingCollective`` is read."""
    module = sys.modules.get(C10D)
    if module is None:
        return None
    from torch._C import _distributed_c10d

    waiting = [one for one in _recorded(_distributed_c10d) if not one["retired"] and one["state"] != "completed"]
    if not waiting:
        return None
    oldest = min(waiting, key=lambda one: int(one["time_created_ns"]))
    name = str(oldest["process_group"][0])
    return {
        "operation": str(oldest["profiling_name"]).partition(":")[2].partition(" ")[0] or "collective",
        "group": name,
        "ranks": _ranks_of(module, name),
        "sequence": int(oldest["p2p_seq_id"] if oldest["is_p2p"] else oldest["collective_seq_id"]),
        "is_pair": bool(oldest["is_p2p"]),
    }


def _recorded(c10d: Any) -> Iterator[dict[str, Any]]:
    """Yield the collectives that torch's flight recorders hold: NCCL has one of its own. An earlier torch has none."""
    for name in RECORDERS:
        if (dump := getattr(c10d, name, None)) is not None:
            yield from json.loads(dump(True, False)).get("entries") or []


def _ranks_of(module: Any, name: str) -> list[int]:
    """Return the global ranks of the process group called ``name``."""
    for group, other in list(module._world.pg_names.items()):
        if str(other) == name:
            return sorted(int(rank) for rank in module._world.pg_group_ranks.get(group, {}))
    return []


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames from the innermost on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def line_of(frames: list[FrameType], folder: Path) -> str:
    """Return the innermost line that is no library's: "train.py line 84"."""
    for frame in frames:
        file = frame.f_code.co_filename
        if not file.startswith(BESIDE) or file.startswith(str(folder)):
            return f"{_short(file, folder)} line {frame.f_lineno}"
    return ""


def stack_of(frames: list[FrameType]) -> str:
    """Return the innermost frames, the most recent call first."""
    lines = [f'File "{one.f_code.co_filename}", line {one.f_lineno}, in {one.f_code.co_name}' for one in frames]
    return "\n".join(lines[:MAX_FRAMES])[:MAX_CHARACTERS]


def _short(file: str, folder: Path) -> str:
    for base in (folder, ROOT):
        if file.startswith(f"{base}/"):
            return file[len(str(base)) + 1 :]
    return file
