"""Nodes near to each other, of the kind that a run needs: tables of cases."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from runs.placing.fitting import Placed, Request, Room, Waiting
from runs.placing.scheduling import place
from trainyard.contract.machines import Cpu, Gpu, Inventory
from trainyard.spec import parse_spec
from trainyard.spec.needs import Needs, key_of, needs_of


def room(name: str, where: str = "", slots: int = 8, *, free: int | None = None, **changes: Any) -> Room:
    """``where`` is the node's switch and rack, as ``s1 r1``."""
    free_slots = tuple(range(slots - (slots if free is None else free), slots))
    return Room(name, name, slots, free_slots, "gpu", place=tuple(where.split(" ")) if where else (), **changes)


def rooms(**counts: int) -> list[Room]:
    """Return so many nodes of each switch: ``s1r1=2`` are s1r1-0 and s1r1-1 on switch s1 of rack r1."""
    return [
        room(f"{where}-{number}", re.sub(r"(s.*)(r.*)", r"\1 \2", where))
        for where, count in counts.items()
        for number in range(count)
    ]


def gang(num_nodes: int, **changes: Any) -> Request:
    return Request("run", num_nodes, 8, "gpu", **changes)


def nodes_of(request: Request, found: list[Room]) -> list[str]:
    (answer,) = place("lab", [request], found)
    assert isinstance(answer, Placed), answer
    return [part.node for part in answer.parts]


@pytest.mark.parametrize(
    ("there", "number", "expected"),
    [
        (rooms(s1r1=1, s2r1=2, s3r2=4), 2, "s2r1-0 s2r1-1"),  # one switch, and not the first two nodes
        (rooms(s1r1=4, s2r2=2), 2, "s2r2-0 s2r2-1"),  # the smallest that is enough: the large one stays whole
        (rooms(s1r1=1, s2r1=1, s3r2=1, s4r3=1), 2, "s1r1-0 s2r1-0"),  # no switch has two: one rack
        (rooms(s1r1=1, s2r1=1, s3r2=2, s4r2=1), 2, "s3r2-0 s3r2-1"),  # a switch before a smaller rack
        (rooms(s1r1=2, s2r2=3, s3r3=1), 4, "s2r2-0 s2r2-1 s2r2-2 s3r3-0"),  # the largest, and the smallest for the rest
        (rooms(s1r1=2, s2r2=3, s3r3=1), 5, "s1r1-0 s1r1-1 s2r2-0 s2r2-1 s2r2-2"),
        (rooms(s1r1=2, s2r1=2, s3r1=1), 4, "s1r1-0 s1r1-1 s2r1-0 s2r1-1"),  # within a rack, the fewest switches
    ],
)
def test_a_gang_is_in_the_fewest_racks_and_in_these_on_the_fewest_switches(
    there: list[Room], number: int, expected: str
) -> None:
    assert nodes_of(gang(number), there) == expected.split()
    assert nodes_of(gang(number), there[::-1]) == expected.split()


def test_ranks_in_a_row_have_nodes_near_to_each_other() -> None:
    there = [room("a", "s1 r1"), room("b", "s2 r2"), room("c", "s1 r1"), room("d", "s2 r2")]
    assert nodes_of(gang(4), there) == ["a", "c", "b", "d"], "and not by their names alone"


@pytest.mark.parametrize(
    ("there", "number", "num_near"),
    [
        (rooms(s1r1=3, s2r2=3), 4, 2),  # two of each rack, not three and one
        (rooms(s1r1=5, s2r2=4), 8, 4),
        (rooms(s1r1=3, s2r1=3, s3r1=2), 6, 2),
    ],
)
def test_the_nodes_of_one_tensor_context_or_shard_group_are_in_one_place(
    there: list[Room], number: int, num_near: int
) -> None:
    found = nodes_of(gang(number, needs=Needs(num_near=num_near)), there)
    switch = {one.node: one.place for one in there}
    groups = [found[first : first + num_near] for first in range(0, number, num_near)]
    assert all(switch[one] == switch[other] for group in groups for one, other in pairwise(group)), found


def test_where_no_place_has_a_whole_group_the_run_starts_all_the_same() -> None:
    assert len(nodes_of(gang(4, needs=Needs(num_near=4)), rooms(s1r1=1, s2r2=1, s3r3=1, s4r4=1))) == 4


def test_nodes_without_labels_are_near_to_nobody_and_are_taken_where_there_are_no_others() -> None:
    there = [room("a", " "), room("b", " "), room("c", "s1 r1"), room("d", "s1 r1")]
    assert nodes_of(gang(2), there) == ["c", "d"]
    assert nodes_of(gang(3), there) == ["a", "c", "d"]
    same_switch = [room("a", "s1 "), room("b", "s2 "), room("c", "s2 ")]
    assert nodes_of(gang(2), same_switch) == ["b", "c"], "their racks are unknown, their switch is not"


def test_a_gang_that_is_restarted_keeps_its_nodes_and_one_that_it_avoids_comes_last() -> None:
    there = rooms(s1r1=1, s2r2=3, s3r3=2)
    assert nodes_of(gang(2, before=frozenset({"s1r1-0"})), there)[0] == "s1r1-0"
    assert "s3r3-0" not in nodes_of(gang(2, avoided=frozenset({"s3r3-0"})), there)
    assert len(nodes_of(gang(6, avoided=frozenset({"s3r3-0"})), there)) == 6


def test_a_place_with_a_warm_node_comes_before_its_like() -> None:
    there = [room("a", "s1 r1", is_cold=True), room("b", "s1 r1"), room("c", "s2 r2"), room("d", "s2 r2")]
    assert nodes_of(gang(2), there) == ["c", "d"]


def machine(gpu: str = "", memory: int | None = None, cores: int | None = None, **labels: str) -> Inventory:
    gpus = [Gpu(name=gpu)] * 8 if gpu else None
    return Inventory(gpus=gpus, memory_bytes=memory, cpu=Cpu(count=cores), labels=labels)


@pytest.mark.parametrize(
    ("kind", "device", "fits"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True), ("h100 80gb", "NVIDIA H100 80GB HBM3", True),
        ("A100|H100", "NVIDIA A100-SXM4-40GB", True), ("A10", "NVIDIA A100-SXM4-40GB", False),
        ("H100", "NVIDIA H200", False), ("H100 40GB", "NVIDIA H100 80GB HBM3", False), ("MI300X", "", False),
    ],
)  # fmt: skip
def test_a_kind_of_gpu_is_known_by_the_words_of_its_name(kind: str, device: str, fits: bool) -> None:
    needs = needs_of({"resources": {"gpu": kind}})
    assert needs and (not needs.missing(machine(device))) is fits


def test_a_node_with_gpus_of_several_kinds_is_of_none_that_it_does_not_have_throughout() -> None:
    mixed = Inventory(gpus=[Gpu(name="NVIDIA H100"), Gpu(name="NVIDIA A100")])
    assert Needs(gpu=("H100",)).missing(mixed) and not Needs(gpu=("H100", "A100")).missing(mixed)


ASKED = {
    "gpu": "H100|A100", "memory_per_node": "64 GiB", "cpus": 16, "labels": {"pool": "fast"},
    "preferred_labels": {"disk": "nvme"},
}  # fmt: skip


def test_a_spec_says_what_a_run_needs_of_its_nodes() -> None:
    document = {"name": "x", "task": {"script": "a.py"}, "resources": ASKED}
    needs = needs_of(parse_spec(document).resolved())
    assert needs == Needs(
        gpu=("H100", "A100"), memory_bytes=64 * 2**30, cpus=16, labels=(("pool", "fast"),),
        preferred=(("disk", "nvme"),),
    )  # fmt: skip
    assert needs_of(parse_spec({**document, "resources": {}}).resolved()) is None
    assert needs_of({}) is None, "of a run from before there were needs"


def test_groups_that_fit_on_a_node_need_no_nearness() -> None:
    document = {
        "name": "x", "task": {"recipe": "language-model"}, "train": {"batch_size": 32, "steps": 1},
        "resources": {"nodes": 4, "processes_per_node": 2}, "parallel": {"shard": 4},
    }  # fmt: skip
    assert needs_of(parse_spec(document).resolved()) == Needs(num_near=2)
    assert needs_of(parse_spec({**document, "parallel": {"tensor": 2}}).resolved()) is None


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("gpu", "H100|", 'must be a kind of GPU such as H100, or several such as H100|A100, not "H100|"'),
        ("gpu", "<b>|*", "must be a kind of GPU"),
        ("memory_per_node", "much", 'must be a size such as 64 GiB or 500 GB, not "much"'),
        ("memory_per_node", "NaN GiB", "must be a size"),
        ("memory_per_node", f"{'9' * 500} GiB"[:20], "must be a size"),
        ("cpus", -1, "-1"),
        ("labels.", {"po ol": "x"}, 'letters, digits, ., _, / and -, not "po ol"'),
        ("preferred_labels.", {"pool": "<b>"}, 'not "<b>"'),
    ],
)
def test_a_bad_value_is_refused_by_its_field_and_itself(field: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        parse_spec({"name": "x", "task": {"script": "a.py"}, "resources": {field.rstrip("."): value}})
    assert f"resources.{field.rstrip('.')}" in str(caught.value)


@pytest.mark.parametrize(
    ("size", "expected"), [("64 GiB", 64 * 2**30), ("500GB", 500 * 10**9), ("1.5 TB", 15 * 10**11)]
)
def test_memory_is_a_size(size: str, expected: int) -> None:
    needs = needs_of({"resources": {"memory_per_node": size}})
    assert needs and needs.memory_bytes == expected


def waits(request: Request, found: list[Room]) -> Waiting:
    (answer,) = place("lab", [request], found)
    assert isinstance(answer, Waiting)
    return answer


H100 = machine("NVIDIA H100 80GB HBM3", memory=2**40, cores=64, pool="fast")
A100 = machine("NVIDIA A100-SXM4-80GB", memory=2**38, cores=16)


def test_a_run_gets_the_kind_of_node_that_it_needs() -> None:
    there = [room("a", machine=A100), room("b", machine=H100), room("c", machine=A100)]
    assert nodes_of(gang(1, needs=Needs(gpu=("H100",))), there) == ["b"]
    assert nodes_of(gang(2, needs=Needs(gpu=("A100",))), there) == ["a", "c"]
    assert nodes_of(gang(1, needs=Needs(cpus=17)), there) == ["b"]
    assert nodes_of(gang(1, needs=Needs(preferred=(("pool", "fast"),))), there) == ["b"]
    assert nodes_of(gang(2, needs=Needs(preferred=(("pool", "fast"),))), there) == ["a", "b"], "and others beside"


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(gpu=("H200", "B200")), "this run needs H200 or B200: no node here has one."),
        (Needs(memory_bytes=2**41), "this run needs 2.0 TiB of memory: no node here has one."),
        (Needs(labels=(("pool", "slow"),)), "this run needs label pool=slow: no node here has one."),
        (Needs(gpu=("A100",), cpus=64), "this run needs A100 and 64 cores: of 2 nodes here 0 have all of it."),
    ],
)
def test_a_run_that_no_node_can_ever_hold_says_what_it_needs_and_stops_nobody(needs: Needs, words: str) -> None:
    there = [room("a", machine=A100), room("b", machine=H100)]
    answer = waits(gang(1, needs=needs), there)
    assert answer.sentence == f"Waiting for other nodes on cluster lab: {words}" and not answer.has_claim


def test_too_few_nodes_of_a_kind_are_counted() -> None:
    there = [room("a", machine=A100), room("b", machine=H100)]
    assert "of 2 nodes here 1 have all of it" in waits(gang(2, needs=Needs(gpu=("A100",))), there).sentence


def test_a_run_that_waits_for_a_busy_node_of_its_kind_says_how_many_others_lack_it() -> None:
    there = [room("a", machine=A100), room("b", machine=H100, free=0)]
    answer = waits(gang(1, needs=Needs(gpu=("H100",))), there)
    assert (
        answer.sentence == "Waiting for 8 more GPUs on cluster lab: 0 of 8 free; 1 node without H100."
        and answer.has_claim
    )


def test_one_that_needs_another_kind_passes_it_only_where_it_does_not_delay_it() -> None:
    there = [room("a", machine=A100), room("b", machine=H100, free=0, ends=dict.fromkeys(range(8), 60.0))]
    first, other = gang(1, needs=Needs(gpu=("H100",))), Request("other", 1, 8, "gpu", needs=Needs(gpu=("A100",)))
    assert [type(one) for one in place("lab", [first, other], there)] == [Waiting, Placed]


def has(*keys: str) -> Inventory:
    return Inventory(kept=dict.fromkeys(keys, 0))


def test_a_node_that_has_the_data_comes_before_its_like_behind_fragments_and_topology() -> None:
    reads = gang(1, needs=Needs(kept=("p/data", "p/image")))
    assert nodes_of(reads, [room("a"), room("b", machine=has("p/data"))]) == ["b"]
    assert nodes_of(reads, [room("a", machine=has("p/data")), room("b", machine=has("p/data", "p/image"))]) == ["b"]
    assert nodes_of(reads, [room("a"), room("b", machine=has("other/data"))]) == ["a"], "of another project"
    small = Request("run", 1, 2, "gpu", needs=reads.needs)
    assert nodes_of(small, [room("a", free=2), room("b", machine=has("p/data"))]) == ["a"], "which becomes full"
    two = gang(2, needs=reads.needs)
    there = [*rooms(s1r1=2), room("c", "s2 r2", machine=has("p/data")), room("d", "s3 r3", machine=has("p/data"))]
    assert nodes_of(two, there) == ["s1r1-0", "s1r1-1"], "they are near to each other"
    alike = [*rooms(s1r1=2), room("c", "s2 r2"), room("d", "s2 r2", machine=has("p/data"))]
    assert nodes_of(two, alike) == ["c", "d"]


@pytest.mark.parametrize(
    ("location", "is_kept"),
    [("s3://bucket/rows.csv", True), ("https://a.example/rows.csv", True), ("/data/rows.csv", False),
     ("file:///data/rows.csv", False)],
)  # fmt: skip
def test_data_of_a_url_is_kept_by_nodes(location: str, is_kept: bool) -> None:
    task = {"recipe": "tabular", "data": {"source": "csv", "location": location}}
    needs = needs_of(parse_spec({"name": "x", "project": "p", "task": task}).resolved())
    assert (needs.kept if needs else ()) == ((f"p/{key_of(location)}",) if is_kept else ())


def test_an_image_is_known_by_what_the_spec_asks_for_and_a_long_queue_of_others_has_one_shape() -> None:
    def asked(image: str) -> Needs | None:
        environment = {"container": image}
        document = {"name": "x", "project": "p", "task": {"script": "a.py"}, "environment": environment}
        return needs_of(parse_spec(document).resolved())

    one, other = asked("registry.example/a:1"), asked("registry.example/b:1")
    assert one and other and one.kept != other.kept and one == asked("registry.example/a:1")
    assert gang(1, needs=one).shape == gang(1, needs=other).shape


LEVELS = ("switch", "rack")


def one_place(level: str, num_nodes: int, **changes: Any) -> Request:
    return gang(num_nodes, needs=Needs(within=level), **changes)


def named(*groups: list[Room]) -> list[Room]:
    return [replace(one, levels=LEVELS) for group in groups for one in group]


@pytest.mark.parametrize(
    ("level", "there", "number", "expected"),
    [
        ("switch", rooms(s1r1=1, s2r1=2, s3r2=3), 2, "s2r1-0 s2r1-1"),
        ("switch", rooms(s1r1=1, s2r1=1, s3r2=3), 3, "s3r2-0 s3r2-1 s3r2-2"),
        ("rack", rooms(s1r1=1, s2r1=1, s3r2=1), 2, "s1r1-0 s2r1-0"),
        (
            "switch",
            [room("a", "s1 r1"), room("b", "s1 r2"), room("c", "s2 r2"), room("d", "s2 r2")],
            2,
            "c d",
        ),  # s1 twice
        ("rack", [room("a", ""), room("b", "s r"), room("c", " r")], 2, "c b"),  # a has no label, c none of a switch
        ("rack", rooms(s1r1=1), 1, "s1r1-0"),
        ("rack", [room("a", "")], 1, "a"),  # one node is near to itself
    ],
)
def test_a_run_that_asks_for_one_place_is_in_it(level: str, there: list[Room], number: int, expected: str) -> None:
    assert nodes_of(one_place(level, number), named(there)) == expected.split()


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (rooms(s1r1=1, s2r1=1, s3r2=1), "no switch has 2 nodes with 8 slots each."),
        ([room("a", "s1 r1"), room("b", "s1 r1", free=0), room("c", "s2 r1"), room("d", "s2 r1", free=0)],
         "Waiting for 1 more node with 8 free GPUs in one switch on cluster lab: 16 of 32 free."),
        ([room("a", " r1"), room("b", " r1")], "no switch has 2 nodes with 8 slots each."),  # nobody knows their switch
    ],
)  # fmt: skip
def test_it_waits_for_one_place_and_says_so(there: list[Room], words: str) -> None:
    (answer,) = place("lab", [one_place("switch", 2)], named(there))
    assert isinstance(answer, Waiting) and words in answer.sentence, answer


def test_nobody_delays_a_run_that_waits_for_one_place() -> None:
    """Two switches have a free node each: one of them gets its second in 50 s, and is kept for the first."""
    there = named(
        [room("a", "s1 r1"), room("b", "s1 r1", free=0, ends=dict.fromkeys(range(8), 50.0))],
        [room("c", "s2 r1"), room("d", "s2 r1", free=0)],
    )
    first, long = one_place("switch", 2), replace(gang(1), run="long", lasts_s=500.0)
    waits, passes = place("lab", [first, long], there)
    assert isinstance(waits, Waiting) and isinstance(passes, Placed)
    assert [part.node for part in passes.parts] == ["c"]


def test_it_goes_back_to_the_place_where_it_was() -> None:
    there = named(rooms(s1r1=2, s2r1=3))
    assert nodes_of(one_place("switch", 2, before=frozenset({"s2r1-1"})), there)[-1].startswith("s2r1")
