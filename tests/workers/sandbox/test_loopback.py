"""A script of one project that looks for the servers of another's ranks on the same machine."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey, short_folder
from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject
from workers.kernel import bpf
from workers.sandbox.loopback import Guard, why_not_guarded
from workers.sandbox.node import CannotIsolate, find_isolation, project_users

INFO_OF_DESCRIPTOR, LINK_OF_ID = 15, 30  # commands of bpf(2)
VICTIM = """
import os, time, torch
import torch.distributed as dist
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
if os.environ["RANK"] == "0":
    store.set("plan", "ours")
    open({told!r}, "w").write(os.environ["MASTER_PORT"])
dist.barrier()
while not os.path.exists({stop!r}):
    time.sleep(0.05)
total = torch.ones(1)
dist.all_reduce(total)
print(int(total), store.get("plan").decode(), flush=True)
dist.destroy_process_group()
"""
ATTACK = """
import datetime, socket, torch.distributed as dist
for host in ("127.0.0.1", "::1", {address!r}):
    try:
        socket.create_connection((host, {port}), timeout=1).close()
        store = dist.TCPStore(host, {port}, is_master=False, timeout=datetime.timedelta(seconds=2))
        store.set("default_pg/0//plan", "theirs")
        store.set("plan", "theirs")
        print(host, "written", flush=True)
    except (OSError, RuntimeError) as error:
        print(host, type(error).__name__, flush=True)
"""


@pytest.fixture
def node(own_valkey: Valkey) -> Iterator[ControlledNode]:
    with short_folder("ty-node-") as folder:
        one = ControlledNode(folder, own_valkey.url, name="shared")
        yield one
        one.close()


def launched(node: ControlledNode, script: str, project: str, ranks: int) -> JsonObject:
    order = node.order(script, spec={"project": project, "task": {"script": "train.py", "arguments": []}}, ranks=ranks)
    node.launch(order)
    return order


def own_address() -> str:
    """The machine's address on its network, which the loopback carries too; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize(
    "setting", ["own", pytest.param("host", marks=pytest.mark.extended, id="host: so the attack is one")]
)
def test_another_projects_store_is_not_reached_and_ones_own_is(
    node: ControlledNode, open_folder: Path, setting: str
) -> None:
    isolation = find_isolation(node.base)
    if isolation.loopback_problem:
        pytest.skip(isolation.loopback_problem)
    node.start(TRAINYARD_RANK_LOOPBACK=setting)
    open_folder.chmod(0o777)
    told, stop = open_folder / "port", open_folder / "stop"
    victim = launched(node, VICTIM.format(told=str(told), stop=str(stop)), "victim", 2)
    port = int(until(lambda: told.exists() and told.read_text(), 30.0, lambda: node.report(victim)))
    attack = launched(node, ATTACK.format(address=own_address(), port=port), "attack", 1)
    assert node.wait_for(attack, "ended")["reason"] is None, node.lines(attack, "stderr")
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass  # the node's own user, as sessions, forwarded ports and apps are
    stop.touch()
    assert node.wait_for(victim, "ended")["reason"] is None, node.lines(victim, "stderr")
    for one in (attack, victim):
        node.wait_until_shipped(one)
    outcomes = {line.split()[1] for line in node.lines(attack)}
    if setting == "own":
        assert outcomes <= {"TimeoutError", "OSError"} and "TimeoutError" in outcomes
        assert sorted(node.lines(victim)) == ["2 ours", "2 ours"]
    else:
        first = project_users()[0]
        if "written" not in outcomes and not is_reached((socket.AF_INET, socket.SOCK_STREAM), first, first + 1):
            pytest.skip("another node of this machine has a guard, which holds for all of it")
        assert "written" in outcomes
        assert sorted(node.lines(victim)) == ["2 theirs", "2 theirs"]


def test_a_guard_covers_every_way_to_a_socket_and_ends_with_its_holder() -> None:
    users = project_users()
    if os.geteuid() != 0 or (why := why_not_guarded(users)):
        pytest.skip("the kernel takes no guard from this user" if os.geteuid() else why)
    mine, other, nobody = users[0] + 7, users[0] + 8, 65_534
    kinds = [(socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET6, socket.SOCK_STREAM),
             (socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_DGRAM)]  # fmt: skip
    first, second = Guard(users), Guard(users)
    first.close()
    for kind in kinds:
        assert [is_reached(kind, mine, caller) for caller in (mine, other, nobody, 0)] == [True, False, True, True]
        assert is_reached(kind, 0, mine), "servers of the machine are reached"
    links = [link_id(one) for one in second._links]
    assert all(map(is_attached, links))
    second.close()
    assert not any(map(is_attached, links)), "nothing is left behind; other nodes of this machine have their own"


def test_an_attempt_begins_where_the_kernel_takes_no_further_guard_and_has_its_own_later(
    node: ControlledNode, open_folder: Path
) -> None:
    """A machine that runs more than 64 attempts at once."""
    users = project_users()
    if os.geteuid() != 0 or (why := why_not_guarded(users)):
        pytest.skip("the kernel takes no guard from this user" if os.geteuid() else why)
    open_folder.chmod(0o777)
    begun, stop = open_folder / "begun", open_folder / "stop"
    node.start(TRAINYARD_RANK_LOOPBACK="own")
    wait = f"import os, time\nopen({str(begun)!r}, 'w')\nwhile not os.path.exists({str(stop)!r}): time.sleep(0.05)\n"
    others = [Guard(users) for _ in range(65)]
    try:
        assert why_not_guarded(users) == "", "a node that starts now is guarded too"
        order = launched(node, wait, "any", 1)
        until(begun.exists, 30.0, lambda: node.report(order))
    finally:
        for one in others:
            one.close()
    until(lambda: not is_reached((socket.AF_INET, socket.SOCK_STREAM), users[0], users[0] + 1), 10.0)
    stop.touch()
    assert node.wait_for(order, "ended")["reason"] is None


def link_id(descriptor: int) -> int:
    info = ctypes.create_string_buffer(64)
    bpf(INFO_OF_DESCRIPTOR, struct.pack("=IIQ", descriptor, len(info), ctypes.addressof(info)))
    return int(struct.unpack_from("=II", info)[1])


def is_attached(link: int) -> bool:
    try:
        os.close(bpf(LINK_OF_ID, struct.pack("=III", link, 0, 0)))
    except OSError as error:
        assert error.errno == errno.ENOENT
        return False
    return True


def is_reached(kind: tuple[int, int], listener: int, caller: int) -> bool:
    """Whether what one user sends reaches a socket of another. To the kernel a socket is its file's owner's."""
    with socket.socket(*kind) as server, socket.socket(*kind) as client:
        os.fchown(server.fileno(), listener, listener)
        os.fchown(client.fileno(), caller, caller)
        server.bind(("127.0.0.1" if kind[0] == socket.AF_INET else "::1", 0))
        server.settimeout(0.2)
        client.settimeout(0.2)
        if kind[1] == socket.SOCK_STREAM:
            server.listen(1)
        try:
            client.connect(server.getsockname())
            client.send(b"x")
            return kind[1] == socket.SOCK_STREAM or server.recv(1) == b"x"
        except TimeoutError:
            return False


def test_a_node_that_is_asked_for_a_guard_and_has_none_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(CannotIsolate, match="TRAINYARD_RANK_LOOPBACK=own is not to be had: ranks of all projects are"):
        find_isolation(tmp_path, environ={"TRAINYARD_RANK_LOOPBACK": "own", "TRAINYARD_ISOLATION": "off"})
    found = find_isolation(tmp_path, environ={"TRAINYARD_RANK_LOOPBACK": "host"})
    assert found.described().loopback_problem == "TRAINYARD_RANK_LOOPBACK=host"
