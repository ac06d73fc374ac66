"""What a node says of its machine, and what it knows of processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dashboard.home import socket_path as valkey_socket_path
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import decode, encode, to_builtins
from trainyard.contract.machines import Health, Inventory
from trainyard.contract.seals import broker_url, check_mac, frames_scope, stream_key
from workers.attempt.folder import AttemptFolder, AttemptTaken
from workers.machine.inventory import CORES, HealthReader, num_cpus, num_usable_cpus, take_inventory
from workers.machine.processes import Process, children_of, identify, is_alive, start_of, with_environment
from workers.sandbox.node import SETTING, find_isolation
from workers.transport.commands import make_app
from workers.transport.control_socket import Request, SupervisorAnswer, listen, send_request, serve_one, socket_path


def test_the_inventory_names_what_the_machine_has(tmp_path: Path) -> None:
    inventory = take_inventory(tmp_path)
    assert inventory.cpu is not None and (inventory.cpu.count or 0) >= 1
    assert (inventory.memory_bytes or 0) > 0
    assert isinstance(inventory.gpus, list)
    assert decode(encode(inventory), Inventory) == inventory


def test_a_node_that_shares_its_machine_counts_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORES, raising=False)
    everything = num_cpus()
    monkeypatch.setenv(CORES, "1")
    assert num_cpus() == 1 and num_usable_cpus() == everything
    for no_share in ("0", "-1", "all", str(everything + 1)):
        monkeypatch.setenv(CORES, no_share)
        assert num_cpus() == everything


def test_the_inventory_does_not_import_torch() -> None:
    code = """
import pathlib, sys
from workers.machine.inventory import CORES, num_cpus, take_inventory
take_inventory(pathlib.Path("/"))
print("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_health_sample_holds_every_figure(tmp_path: Path) -> None:
    sample = HealthReader(tmp_path).sample()
    found = to_builtins(sample)
    assert 0 <= found["cpu_percent"] <= 100
    assert 0 < found["memory_used_bytes"] <= found["memory_bytes"]
    assert 0 < found["disk_used_bytes"] <= found["disk_bytes"]
    assert found["network_received_bytes_per_s"] >= 0
    assert decode(encode(sample), Health) == sample


def test_a_node_says_every_second_who_it_is_and_sends_its_health(calm_node: ControlledNode) -> None:
    first = until(calm_node.up)
    assert (first["node"], first["name"], first["address"]) == (calm_node.id, "calm", "127.0.0.1")
    until(lambda: calm_node.up()["at"] > first["at"])  # type: ignore[index]

    def own_samples() -> list[dict[bytes, bytes]]:
        entries = [entry for _, entry in calm_node.valkey.xrange(stream_key(0))]  # type: ignore[union-attr]
        return [entry for entry in entries if entry[b"r"] == b"" and entry[b"n"].decode() == calm_node.id]

    entry = until(own_samples)[0]
    check_mac(calm_node.key, frames_scope(calm_node.id, "", 0), entry[b"d"], entry[b"m"].decode())
    assert json.loads(entry[b"d"])["memory_bytes"] == first["health"]["memory_bytes"]


def test_the_warm_process_has_one_thread_and_no_secret_in_its_environment(calm_node: ControlledNode) -> None:
    order = calm_node.order("pass")
    calm_node.launch(order)
    calm_node.wait_for(order, "ended")
    assert calm_node.process is not None
    (zygote,) = children_of(calm_node.process.pid)
    assert len(list(Path(f"/proc/{zygote}/task").iterdir())) == 1
    environment = Path(f"/proc/{zygote}/environ").read_bytes()
    assert b"TRAINYARD" not in environment
    assert calm_node.key.encode() not in environment


def test_a_process_is_told_from_a_later_one_with_its_pid() -> None:
    child = subprocess.Popen(["sleep", "60"])
    seen = identify(child.pid)
    assert is_alive(seen)
    assert not is_alive(Process(seen.pid, seen.start - 1))
    child.kill()
    until(lambda: not is_alive(seen))  # a zombie is nobody
    child.wait()
    assert start_of(child.pid) is None


def test_processes_are_found_by_what_they_were_started_with() -> None:
    child = subprocess.Popen(["sleep", "60"], env={"TRAINYARD_ATTEMPT": "abc", "TRAINYARD_NODE": "here"})
    try:
        until(lambda: with_environment(TRAINYARD_ATTEMPT="abc", TRAINYARD_NODE="here"))
        assert with_environment(TRAINYARD_ATTEMPT="abc", TRAINYARD_NODE="elsewhere") == []
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()


def test_a_lock_is_seen_without_being_taken_and_is_not_inherited(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path)
    assert folder.lock_holder() is None
    code = """
import os, pathlib, sys, time
from workers.attempt.folder import AttemptFolder
lock = AttemptFolder(pathlib.Path(sys.argv[1])).take_lock()
child = os.fork()
if child == 0:
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert folder.lock_holder() == holder.pid
        try:
            folder.take_lock().close()
        except AttemptTaken:
            pass
        else:
            raise AssertionError("two supervisors in one folder")
        holder.kill()
        until(lambda: folder.lock_holder() is None)
        assert start_of(child) is not None
    finally:
        os.kill(child, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()


def test_a_client_that_stalls_does_not_hold_up_the_control_socket(home: Path) -> None:
    path = socket_path(home)
    server = listen(path)
    with server, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(path))
        serve_one(server, lambda request: SupervisorAnswer())  # returns: the silent one was dropped
    assert send_request(path, Request(do="anything")) is None
    path.unlink()


def test_a_supervisor_listens_where_the_folders_of_its_user_have_long_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = home / ("t" * 90)
    long.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    path = socket_path(home)
    with listen(path):
        assert stat.S_ISSOCK(path.stat().st_mode)
    path.unlink()
    assert str(path.parent) in find_isolation(home, environ={SETTING: "off"}).hidden
    valkey = valkey_socket_path(home / ("h" * 90))
    with socket.socket(socket.AF_UNIX) as server:
        valkey.parent.mkdir(mode=0o700, exist_ok=True)
        server.bind(str(valkey))
    valkey.unlink()


def test_the_broker_gets_kombus_spelling_of_a_unix_socket() -> None:
    assert broker_url("unix:///a/b.sock") == "redis+socket:///a/b.sock?virtual_host=0"
    assert broker_url("unix:///a/b.sock?db=3") == "redis+socket:///a/b.sock?virtual_host=3"
    assert broker_url("redis://:pw@host:6379/1") == "redis://:pw@host:6379/1"


def test_celery_on_a_node_takes_json_only_and_no_remote_control() -> None:
    app = make_app("unix:///x.sock", "one")
    assert list(app.conf.accept_content) == ["json"]
    assert not app.conf.worker_enable_remote_control
    assert (app.conf.worker_disable_prefetch, app.conf.worker_prefetch_multiplier) == (False, 0), "it never pauses"
    assert app.conf.task_ignore_result
