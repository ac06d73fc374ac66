"""What a session's relay is made of: the words of the command, the window, and whose port a port is."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from trainyard.contract.sessions import SessionOrder
from trainyard.contract.statuses import Phase
from workers.containers.documents import ContainerPlan, ContainerRuntime
from workers.interactive.child import words_of
from workers.interactive.forwarding import why_not_forwarded
from workers.interactive.link import Sizes
from workers.rank_process.run import RankPlan
from workers.supervisor.main import Sessions
from workers.supervisor.ranks.state import RankState


def test_a_word_that_is_a_variable_is_replaced_and_no_other() -> None:
    environment = {"RANK_PID": "42", "HOME": "/home"}
    words = words_of(["dump", "--pid", "$RANK_PID", "${HOME}", "$OTHER", "echo $HOME", "$"], environment)
    assert words == ["dump", "--pid", "42", "/home", "$OTHER", "echo $HOME", "$"]


def test_no_command_is_a_shell() -> None:
    assert words_of([], os.environ)[0] in ("bash", "sh")
    assert words_of([], {"PATH": "/nowhere"}) == ["/bin/sh"]


def test_a_port_is_forwarded_only_for_a_process_that_listens_there_on_the_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert why_not_forwarded(port, [os.getpid()]) == ""
        assert why_not_forwarded(port, []) == f"Port {port} of this node belongs to no process of this attempt."
    assert why_not_forwarded(port, [os.getpid()]) == f"Nothing listens at port {port} of 127.0.0.1 on this node."


def test_a_port_that_is_ours_at_the_other_loopback_is_not_forwarded_to_whoever_has_it_at_127_0_0_1() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as ours:
        port = ours.getsockname()[1]
        assert why_not_forwarded(port, [os.getpid()]) == f"Nothing listens at port {port} of 127.0.0.1 on this node."
    for address in ("::1", "::"):  # create_server makes "::" one of IPv6 alone
        with socket.create_server((address, 0), family=socket.AF_INET6) as ours:
            port = ours.getsockname()[1]
            with socket.create_server(("127.0.0.1", port)) as theirs:
                other = subprocess.Popen(["sleep", "60"], pass_fds=[theirs.fileno()])
            try:
                why_not = f"Port {port} of this node belongs to no process of this attempt."
                assert why_not_forwarded(port, [os.getpid()]) == why_not
                assert why_not_forwarded(port, [other.pid]) == ""
            finally:
                other.kill()
                other.wait()


def test_a_server_of_both_families_is_forwarded() -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as ours:
        assert why_not_forwarded(ours.getsockname()[1], [os.getpid()]) == ""


def test_sizes_are_summed() -> None:
    sizes = Sizes()
    for number in (1, 2, 3):
        sizes.add(number, number * 10)
    assert (sizes.first, sizes.total) == (1, 60)
    assert sizes.pop() == (1, 10)
    assert (sizes.first, sizes.total) == (2, 50)


def test_a_session_waits_for_its_container(tmp_path: Path) -> None:
    """Podman's own pid would be no process inside."""
    container = ContainerPlan(
        runtime=ContainerRuntime(), name="c", image="i", attempt="a", folder="", home="", workdir="/"
    )
    plan = RankPlan(rank=3, path=str(tmp_path), spec={}, environment={}, threads=1, container=container)
    sessions = Sessions(str(tmp_path))
    sessions.know([plan])
    order = SessionOrder(session="s", attempt="a", run="r", fence=1, rank=3)
    rank = RankState(rank=3, pid=os.getpid(), started_at=0.0)
    answer = sessions.begin(order, Phase.RUNNING, [rank])
    assert answer == "The container of rank 3 is starting. Try again in a moment."
