"""What a rank's own sampler finds, with real ranks and gloo."""

from __future__ import annotations

import json
import mmap
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed

from workers.progress import marker
from workers.progress.description import described
from workers.progress.marker import Marker
from workers.progress.sampler import ROOT, pending_collective

SCRIPT = """
import time
import torch
import torch.distributed as dist
def wait_for_all(total):
    dist.all_reduce(total)
def main():
    total = torch.ones(3)
    dist.all_reduce(total)
    if dist.get_rank() == 1:
        time.sleep(60)
    wait_for_all(total)
main()
"""


# NCCL takes one rank a GPU: what a single one waits for is a long kernel before the sum.
ON_A_GPU = """
import mmap, os, sys
import torch
import torch.distributed as dist
from pathlib import Path
from workers.progress import marker
from workers.progress.sampler import start_sampler
def wait_for_all(total):
    dist.all_reduce(total)
    torch.cuda.synchronize()
def look():
    if text := marker.own().read().text:
        os.write(1, text)
        os._exit(0)
marker.share(mmap.mmap(-1, marker.SIZE))
dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
start_sampler(marker.own(), Path(sys.argv[0]).parent, look)
total = torch.ones(3, device="cuda")
wait_for_all(total)
torch.cuda._sleep(1 << 37)
wait_for_all(total)
"""


def run_rank(rank: int, port: int, memory: mmap.mmap, folder: Path) -> None:
    import torch.distributed as dist

    from workers.progress.sampler import start_sampler

    marker.share(memory)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo")
    start_sampler(marker.own(), folder)
    script = folder / "train.py"
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__"})


def test_a_rank_that_waits_says_in_what_and_where_and_the_other_that_it_has_not_entered(tmp_path: Path) -> None:
    import torch.distributed  # noqa: F401  # once, and not in each rank

    (tmp_path / "train.py").write_text(SCRIPT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    memories = [mmap.mmap(-1, marker.SIZE) for _ in range(2)]
    pids = []
    for rank, memory in enumerate(memories):
        pid = os.fork()
        if pid == 0:
            try:
                run_rank(rank, port, memory, tmp_path)
            finally:
                os._exit(1)
        pids.append(pid)
    try:
        deadline = time.monotonic() + 60
        while not all(Marker(memory).read().text for memory in memories):
            assert time.monotonic() < deadline, "no description came"
            time.sleep(0.1)
        waits, sleeps = (described(Marker(memory).read().text) for memory in memories)
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    assert waits.collective is not None
    assert (waits.collective.operation, waits.collective.ranks, waits.line) == ("all_reduce", [0, 1], "train.py line 6")
    assert sleeps.collective is None and sleeps.line == "train.py line 11"
    (group,) = waits.entered
    assert waits.entered[group] == sleeps.entered[group] + 1 == waits.collective.sequence
    assert "in wait_for_all" in waits.stack and not waits.is_compiling


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, and this machine has none")
def test_a_rank_that_waits_on_a_gpu_says_in_what(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(ON_A_GPU)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, timeout=60, check=True)
    waits = described(done.stdout)
    assert waits.collective is not None
    assert (waits.collective.operation, waits.collective.ranks) == ("all_reduce", [0])
    assert waits.line.startswith("train.py line ") and "in wait_for_all" in waits.stack
    assert waits.entered == {waits.collective.group: waits.collective.sequence} and waits.collective.sequence == 2


def test_the_oldest_of_what_gloo_and_nccl_have_not_left_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps what NCCL has entered in a flight recorder of its own."""
    recorded = {"_dump_fr_trace_json": entry("gloo", at=5), "_dump_nccl_trace_json": entry("nccl", at=3)}
    for name, entries in recorded.items():
        text = json.dumps({"entries": entries})
        monkeypatch.setattr(torch._C._distributed_c10d, name, lambda *_, text=text: text, raising=False)
    found = pending_collective()
    assert found is not None and (found["group"], found["sequence"]) == ("nccl", 4)


def entry(group: str, at: int) -> list[dict[str, Any]]:
    """What a recorder says of one collective that was left, and of the one after it."""
    one = {"process_group": [group, ""], "is_p2p": False, "p2p_seq_id": 0, "profiling_name": f"{group}:all_reduce"}
    return [
        {**one, "record_id": 0, "time_created_ns": 1, "collective_seq_id": 1, "state": "completed", "retired": True},
        {**one, "record_id": at, "time_created_ns": at, "collective_seq_id": 4, "state": "started", "retired": False},
    ]


def test_a_text_is_read_whole_or_not_at_all() -> None:
    mark = Marker(bytearray(marker.SIZE))
    mark.write_text(json.dumps({"line": "a"}).encode())
    assert mark.read().text == b'{"line": "a"}'
    mark.words[marker.LENGTH] = marker.SIZE * 2  # a rank may write what it likes
    mark.words[marker.PHASE] = 99
    assert (mark.read().text, mark.read().phase) == (b"", "")


@pytest.mark.parametrize("phase", marker.PHASES)
def test_a_phase_ends_in_the_one_before(phase: str) -> None:
    mark = Marker(bytearray(marker.SIZE))
    with mark.within(phase):
        assert mark.read().phase == phase
    assert mark.read().phase == ""
