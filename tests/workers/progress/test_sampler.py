"""What a rank's own sampler finds, with real ranks and gloo."""

from __future__ import annotations

import json
import mmap
import os
import socket
import time
from pathlib import Path

import pytest

from workers.progress import marker
from workers.progress.description import described
from workers.progress.marker import Marker

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
