from __future__ import annotations

import os
import socket
import threading
import time

import pytest
import torch

from tests.workers.training.ranks import free_port
from workers.training.group import MasterNotReached, RankPlace, choose_device, num_threads, read_place, wait_for_master


def test_torchruns_variables_name_the_place() -> None:
    environment = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "1"}
    place = read_place({**environment, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"})
    assert place == RankPlace(3, 1, 4, 2, 1, "10.0.0.1", 1234)


def test_a_process_without_them_is_a_world_of_one() -> None:
    assert read_place({}).world_size == 1


def test_ranks_share_the_cores_of_their_node_unless_told_otherwise() -> None:
    cores = len(os.sched_getaffinity(0))
    assert num_threads({}, RankPlace(local_world_size=1)) == cores
    assert num_threads({}, RankPlace(local_world_size=1000)) == 1
    assert num_threads({"TRAINYARD_THREADS": "3"}, RankPlace(local_world_size=1000)) == 3


def test_auto_takes_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_device("auto", RankPlace()).type == "cpu"
    with pytest.raises(ValueError, match=r"resources\.accelerator is 'gpu', local rank 0 of 1 .* sees 0"):
        choose_device("gpu", RankPlace())


def test_each_local_rank_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto", RankPlace(local_rank=1, local_world_size=2)) == torch.device("cuda", 1)
    assert choose_device("cpu", RankPlace(local_rank=1, local_world_size=2)).type == "cpu"
    with pytest.raises(ValueError, match="local rank 2 of 3 needs a GPU of its own, and this process sees 2"):
        choose_device("auto", RankPlace(local_rank=2, local_world_size=3))


def test_a_rank_waits_for_a_master_that_comes_late() -> None:
    port = free_port()
    servers: list[socket.socket] = []
    timer = threading.Timer(0.2, lambda: servers.append(socket.create_server(("127.0.0.1", port))))
    started = time.monotonic()
    timer.start()
    wait_for_master("127.0.0.1", port, timeout_s=20)
    assert time.monotonic() - started >= 0.2
    timer.join()
    servers[0].close()


def test_a_master_that_never_comes_is_named() -> None:
    port = free_port()
    with pytest.raises(MasterNotReached, match=rf"127\.0\.0\.1:{port} did not accept within 0.05 s"):
        wait_for_master("127.0.0.1", port, timeout_s=0.05)
