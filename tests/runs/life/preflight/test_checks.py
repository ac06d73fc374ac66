"""The rules of the checks, on plain values."""

from __future__ import annotations

from typing import Any

import pytest

from runs.life.preflight.needs import CheckedNode, Needs, checks_for
from runs.life.preflight.pairs import broken_connections, connection_checks, unfit_in, version_checks
from runs.life.preflight.vetting import checks_of, checks_together, problems_of
from runs.placing.fitting import Part, Placed
from runs.values.columns import CheckState
from trainyard.contract.base import SpecDocument
from trainyard.contract.machines import FolderState, Gpu, GpuFaults, Health, Inventory, PeerResult, SelfCheck

OK, WARN, FAIL = CheckState.OK, CheckState.WARN, CheckState.FAIL
GIB = 1 << 30
NOW = 1_000_000.0


def folder(path: str = "/data", free: int = 100 * GIB, problem: str = "") -> FolderState:
    return FolderState(path=path, problem=problem, free_bytes=free, total_bytes=200 * GIB)


def checked(name: str = "node-a", **changes: Any) -> CheckedNode:
    """A node in order that reaches the peers that are named."""
    peers = {peer: PeerResult(at=NOW, seconds=0.0005) for peer in changes.pop("reaches", ())}
    peers |= {peer: PeerResult(at=NOW, problem="it is refused") for peer in changes.pop("misses", ())}
    machine = Inventory(
        python=changes.pop("python", "3.11.9"), torch=changes.pop("torch", "2.13.0+cpu"), gpus=changes.pop("gpus", [])
    )
    own = {"at": NOW, "home": folder(), "checkpoints": folder("/ckpt"), "clock_ahead_s": 0.01, "peers": peers}
    own |= {key: changes.pop(key) for key in list(changes) if key in ("home", "checkpoints", "clock_ahead_s", "faults")}
    own["gpus"] = own.pop("faults", [])
    return CheckedNode(
        id=f"id-of-{name}",
        name=name,
        is_in_contact=changes.pop("is_in_contact", True),
        machine=machine,
        version=changes.pop("version", "0.1.0"),
        health=Health(memory_bytes=16 * GIB, memory_used_bytes=changes.pop("used", 4 * GIB)),
        own=None if changes.pop("is_old", False) else SelfCheck(**own),
    )


def states(checks: list[Any]) -> dict[str, CheckState]:
    return {check.name: check.state for check in checks}


def test_a_node_in_order_passes_with_numbers_units_and_limits() -> None:
    found = {one.name: one for one in checks_of(checked())}
    assert {one.state for one in found.values()} == {OK}
    disk = found["checkpoints-disk"]
    assert (disk.value, disk.limit, disk.unit) == (100 * GIB, GIB, "bytes")
    assert disk.sentence == "100 GiB are free for the folder of checkpoints on node-a, /ckpt."
    assert found["clock"].sentence == "The clock of node-a is 0.010 s ahead of the server's."
    assert found["memory"].sentence == "12.0 GiB of 16.0 GiB of the memory of node-a are free."


@pytest.mark.parametrize(
    ("changes", "name", "state", "sentence"),
    [
        ({"is_in_contact": False}, "contact", FAIL, "node-a is out of contact."),
        ({"is_old": True}, "contact", WARN, "node-a has not checked itself yet, or is of a version that does not."),
        (
            {"checkpoints": folder("/ckpt", problem="is a file, not a folder")},
            "checkpoints-folder",
            FAIL,
            "The folder of checkpoints on node-a, /ckpt, is a file, not a folder.",
        ),
        ({"home": folder(free=100 << 20)}, "home-disk", WARN, "100 MiB are free for the folder of attempts and output"),
        ({"home": folder(free=1 << 20)}, "home-disk", FAIL, "1.0 MiB are free"),
        ({"clock_ahead_s": -2.5}, "clock", WARN, "The clock of node-a is 2.500 s behind the server's."),
        ({"clock_ahead_s": 3600.0}, "clock", FAIL, "The clock of node-a is 3,600 s ahead of the server's."),
        ({"used": 16 * GIB - 1}, "memory", WARN, "of the memory of node-a are free."),
        (
            {"faults": [GpuFaults(index=3, ecc_errors=1)]},
            "gpu",
            FAIL,
            "GPU 3 of node-a has had 1 uncorrected memory error since its driver was loaded: reset it.",
        ),
        ({"faults": [GpuFaults(index=0, xid=79)]}, "gpu", FAIL, "GPU 0 of node-a reported Xid 79"),
        ({"faults": [GpuFaults(index=0, xid=63)]}, "gpu", WARN, "GPU 0 of node-a reported Xid 63"),
        ({"faults": [GpuFaults(index=0, slowed_by=["heat"])]}, "gpu", WARN, "runs at a lower clock because of heat."),
    ],
)
def test_what_is_wrong_with_a_node_is_a_sentence(
    changes: dict[str, Any], name: str, state: CheckState, sentence: str
) -> None:
    bad = [one for one in checks_of(checked(**changes)) if one.state != OK]
    assert [(one.name, one.state) for one in bad] == [(name, state)]
    assert sentence in bad[0].sentence and bad[0].node == "node-a"


def test_an_xid_of_a_program_is_no_fault_of_the_gpu() -> None:
    assert states(checks_of(checked(faults=[GpuFaults(index=0, xid=31)])))["gpu"] == OK


def test_nodes_that_reach_each_other_say_how_fast() -> None:
    nodes = [checked("node-a", reaches=["id-of-node-b"]), checked("node-b", reaches=["id-of-node-a"])]
    found = connection_checks(nodes)
    assert [one.state for one in found] == [OK, OK]
    assert found[0].sentence == "node-a reaches node-b; an answer takes 0.50 ms."
    assert (found[0].value, found[0].limit, found[0].unit) == (0.0005, 0.1, "s")


def test_a_connection_that_fails_names_both_ends() -> None:
    nodes = [checked("node-a", misses=["id-of-node-b"]), checked("node-b", reaches=["id-of-node-a"])]
    (bad,) = [one for one in connection_checks(nodes) if one.state == FAIL]
    assert (bad.node, bad.peer) == ("node-a", "node-b")
    assert bad.sentence == "node-a does not reach node-b: it is refused."


def test_a_node_out_of_contact_proves_nothing_about_connections() -> None:
    nodes = [checked("node-a", misses=["id-of-node-b"]), checked("node-b", is_in_contact=False)]
    assert broken_connections(nodes) == []


def test_the_node_that_is_in_most_trouble_is_the_one_to_leave_out() -> None:
    a = checked("node-a", misses=["id-of-node-b", "id-of-node-c"])
    b, c = checked("node-b", reaches=["id-of-node-c"]), checked("node-c", reaches=["id-of-node-b"])
    assert set(unfit_in([a, b, c])) == {"id-of-node-a"}
    assert set(unfit_in([checked("node-a", misses=["id-of-node-b"]), b])) == {"id-of-node-b"}  # which is not reached
    assert unfit_in([b, c]) == {} and unfit_in([a]) == {}


def test_versions_that_differ_are_named() -> None:
    nodes = [checked("node-a"), checked("node-b"), checked("node-c", torch="2.9.1", version="0.2.0")]
    bad = version_checks(nodes)
    assert [(one.state, one.node) for one in bad] == [(FAIL, "node-c"), (WARN, "node-c")]
    assert bad[0].sentence == "node-c has PyTorch 2.9.1, most of the others have 2.13.0+cpu."
    assert bad[1].sentence == "node-c has Trainyard 0.2.0, most of the others have 0.1.0."
    assert "node-c" in str(unfit_in(nodes))


def test_another_patch_release_is_a_warning_and_equal_versions_one_line() -> None:
    assert [one.state for one in version_checks([checked(), checked("node-b", python="3.11.2")])] == [WARN]
    assert unfit_in([checked(), checked("node-b", python="3.11.2")]) == {}
    (line,) = version_checks([checked(), checked("node-b")])
    assert line.sentence == "Python 3.11.9, PyTorch 2.13.0+cpu and Trainyard 0.1.0 on all nodes."


def test_a_plan_that_does_not_fit_the_node_s_disk_or_memory_is_named() -> None:
    spec = SpecDocument({"checkpoint": {"every_steps": 10, "keep": 2}})
    estimate: Any = {"num_parameters": 2 * GIB, "memory": [{"total": 13 * GIB}, {"total": 1 * GIB}]}
    needs = Needs.of(spec, estimate)
    found = {one.name: one for one in checks_for(needs, checked(), range(1))}
    assert found["memory-need"].state == WARN
    assert found["memory-need"].sentence == (
        "The run's rank takes about 13.0 GiB; 12.0 GiB of the memory of node-a are free."
    )
    assert found["checkpoints-need"].state == OK
    short = {one.name: one for one in checks_for(needs, checked(checkpoints=folder("/c", 5 * GIB)), range(1, 2))}
    assert short["checkpoints-need"].state == FAIL and short["memory-need"].state == OK
    assert short["checkpoints-need"].sentence == (
        "5.0 GiB are free for checkpoints on node-a; one checkpoint of the run takes at least 8.0 GiB."
    )
    assert checks_for(Needs.of(spec, None), checked(), range(1)) == []


def test_a_gpu_s_memory_is_held_against_one_rank() -> None:
    node = checked(gpus=[Gpu(index=0, memory_bytes=8 * GIB)])
    needs = Needs(memory_bytes=(6 * GIB, 6 * GIB))
    (found,) = checks_for(needs, node, range(2))
    assert (found.state, found.value, found.limit) == (OK, 6 * GIB, 8 * GIB)


def test_a_run_on_one_node_does_not_mind_connections_or_versions() -> None:
    nodes = {"id-of-node-b": checked("node-b", misses=["id-of-node-a"])}
    assert problems_of(Placed("run", "cpu", (Part("id-of-node-b", (0,)),)), nodes, Needs()) == {}


def test_all_checks_of_some_nodes_are_put_together() -> None:
    found = checks_together([checked("node-a", reaches=["id-of-node-b"]), checked("node-b", is_in_contact=False)])
    assert {(one.name, one.state) for one in found if one.node == "node-b"} == {("contact", FAIL)}
    assert states([one for one in found if one.node == "node-a"])["clock"] == OK
