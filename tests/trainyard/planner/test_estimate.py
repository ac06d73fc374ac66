"""What a plan needs and how long it takes: each way to share the work against what its mathematics says."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # plans.py stands beside the tests
from plans import GIB, GPU, LINK, MIB, NODE, RATES, estimated, spec_of

from trainyard.planner import NodeFacts, estimate
from trainyard.planner.estimating import MARGIN
from trainyard.planner.results import Fit
from trainyard.planner.roofline import COPIES

NO_CHECKPOINTS = {"every_steps": 0}


def test_one_rank_holds_weights_gradients_and_two_moments() -> None:
    made = estimated(spec_of(checkpoint=NO_CHECKPOINTS))
    (memory,) = made.memory
    assert made.num_parameters == 590_976
    assert memory.parameters == 4 * made.num_parameters
    assert memory.optimizer == 2 * memory.parameters
    assert memory.base == 100 * MIB
    assert memory.copies == 0
    assert memory.total == pytest.approx(
        memory.base + memory.parameters + memory.gradients + memory.optimizer + memory.activations + memory.margin
    )


def test_the_units_of_a_second_are_those_of_a_step_over_its_time() -> None:
    made = estimated(spec_of(batch_size=8))
    assert made.unit == "tokens"
    assert made.units_per_second == pytest.approx(8 * 128 / made.step_time.total)


@pytest.mark.parametrize(
    ("optimizer", "moments"), [("adamw", 2.0), ("sgd", 1.0), ("muon", 1.12)], ids=["adamw", "sgd", "muon"]
)
def test_each_optimizer_has_its_moments(optimizer: str, moments: float) -> None:
    (memory,) = estimated(spec_of(optimizer=optimizer, checkpoint=NO_CHECKPOINTS)).memory
    assert memory.optimizer / memory.parameters == pytest.approx(moments, abs=0.01)


def test_copies_of_a_model_share_the_batch_and_send_a_gradient_round_the_ring() -> None:
    alone, both = estimated(spec_of()), estimated(spec_of(world=2))
    assert both.memory[0].activations == pytest.approx(alone.memory[0].activations / 2, rel=0.01)
    assert both.memory[0].parameters == alone.memory[0].parameters
    assert alone.sent_bytes == 0
    assert both.sent_bytes == pytest.approx(4 * both.num_parameters, rel=0.001)  # 2 (n - 1) / n of it
    assert estimated(spec_of(world=4)).sent_bytes == pytest.approx(1.5 * 4 * both.num_parameters, rel=0.001)


def test_the_largest_entries_of_gradients_are_gathered_with_their_places() -> None:
    for world in (2, 4):
        plain, made = (
            estimated(spec_of(world=world, checkpoint=NO_CHECKPOINTS, parallel=one))
            for one in ({}, {"compression": "topk", "topk_ratio": 0.25})
        )
        kept = 8 * made.num_parameters / 4  # a value and its place, of each rank
        assert made.sent_bytes == pytest.approx((world - 1) * kept, rel=0.001)
        left = made.memory[0].copies - plain.memory[0].copies
        assert left == pytest.approx(4 * made.num_parameters + (world + 1) * kept, rel=0.001)


def test_shards_divide_weights_and_moments_but_not_activations() -> None:
    data, shard = (estimated(spec_of(world=2, checkpoint=NO_CHECKPOINTS, parallel=one)) for one in ({}, {"shard": 2}))
    assert shard.memory[0].optimizer == data.memory[0].optimizer / 2
    assert shard.memory[0].activations == data.memory[0].activations
    kept = estimated(spec_of(world=2, parallel={"shard": 2, "reshard_after_forward": False}))
    assert kept.memory[0].parameters > shard.memory[0].parameters
    assert kept.sent_bytes < shard.sent_bytes


@pytest.mark.parametrize(("node", "times"), [(NODE, 2 + 2), (GPU, 2 + 1)], ids=["gloo", "nccl"])
def test_gloo_reduces_all_of_a_gradient_to_scatter_it(node: NodeFacts, times: int) -> None:
    """Of each weight (n - 1) / n is gathered twice; its gradient is scattered, or summed for that."""
    spec = spec_of(world=2, model={"layers": 16}, parallel={"shard": 2})
    made = estimated(spec, node=node)
    blocks = 4 * (made.num_parameters - 2 * 256 * 128)
    ends = 4 * 2 * 256 * 128
    assert made.sent_bytes == pytest.approx((times * blocks + (times - 1) * ends) / 2, rel=0.001)


def test_a_server_sends_all_weights_to_each_of_the_others() -> None:
    two, four = (
        estimated(spec_of(world=world, batch_size=8, parallel={"synchronization": {"kind": "parameter-server"}}))
        for world in (2, 4)
    )
    assert four.sent_bytes == pytest.approx(3 * two.sent_bytes, rel=0.001)
    assert four.step_time.communication == pytest.approx(3 * two.step_time.communication, rel=0.1)


def test_tensor_ranks_divide_the_matrices_and_talk_in_every_layer() -> None:
    data, tensor = (estimated(spec_of(world=2, checkpoint=NO_CHECKPOINTS, parallel=one)) for one in ({}, {"tensor": 2}))
    assert tensor.memory[0].parameters == pytest.approx(data.memory[0].parameters / 2, rel=0.01)
    assert tensor.step_time.communication > 5 * data.step_time.communication


def test_stages_hold_their_layers_and_wait_for_each_other() -> None:
    made = estimated(spec_of(world=2, batch_size=8, parallel={"pipeline": {"stages": 2, "microbatches": 4}}))
    assert made.bubble == pytest.approx(made.step_time.bubble / made.step_time.total)
    assert made.step_time.bubble == pytest.approx(made.step_time.compute / 4)  # (p - 1) / m of what it computes
    first, last = made.memory
    assert first.parameters + last.parameters == 4 * made.num_parameters


@pytest.mark.parametrize("kind", ["selective", "full"])
def test_activation_checkpointing_keeps_less_and_computes_more(kind: str) -> None:
    whole, less = estimated(spec_of()), estimated(spec_of(activation_checkpointing=kind))
    assert less.memory[0].activations < 0.85 * whole.memory[0].activations
    assert less.step_time.compute > whole.step_time.compute
    assert less.flops_per_step == whole.flops_per_step  # nothing that is computed twice counts


def test_passes_that_accumulate_keep_the_activations_of_one() -> None:
    at_once, four = estimated(spec_of()), estimated(spec_of(accumulate=4))
    assert four.memory[0].activations == pytest.approx(at_once.memory[0].activations / 4, rel=0.01)
    assert four.flops_per_step == at_once.flops_per_step


@pytest.mark.parametrize(("kind", "copies"), [("local-sgd", 1), ("diloco", 3), ("parameter-server", 4)])
def test_ranks_that_go_their_own_way_hold_copies(kind: str, copies: int) -> None:
    spec = spec_of(world=2, checkpoint=NO_CHECKPOINTS, parallel={"synchronization": {"kind": kind}})
    memory = estimated(spec).memory
    assert memory[0].copies == copies * memory[0].parameters


def test_workers_of_a_parameter_server_keep_no_moments() -> None:
    spec = spec_of(world=2, parallel={"synchronization": {"kind": "parameter-server"}})
    server, worker = estimated(spec).memory
    assert (server.optimizer > 0, worker.optimizer) == (True, 0)


@pytest.mark.parametrize(("every", "copies"), [(0, 1), ("auto", 3)])  # in memory there are two more
def test_a_checkpoint_is_copied_in_the_machines_memory_and_not_in_a_gpus(every: int | str, copies: int) -> None:
    spec = spec_of(checkpoint={"every_steps": 100, "replicate_every_steps": every})
    assert estimated(spec).memory[0].copies == pytest.approx(copies * 3 * 4 * 590_976)
    assert estimated(spec_of(), node=GPU).memory[0].copies == 0


def test_ranks_of_one_node_share_pages_and_nodes_of_one_machine_do_not() -> None:
    rates = msgspec.structs.replace(RATES, shared_memory_bytes=60 * MIB, sharers=4.0, forked=1.0)
    nodes = [replace(NODE, name=name, host="one") for name in "ab"]
    apart = estimate(spec_of(world=2), nodes, rates).memory[0]
    together = estimate(spec_of(world=2), [nodes[0], nodes[0]], rates).memory[0]
    assert apart.base - together.base == pytest.approx(60 * MIB / 4 - 60 * MIB / 5)


def test_ranks_of_one_machine_share_its_memory_and_its_cores() -> None:
    together = [replace(NODE, name=name, host="one", cores=1) for name in "ab"]
    made = estimate(spec_of(world=2), together, RATES)
    apart = estimated(spec_of(world=2))
    assert made.memory_limits == (8 * GIB, 8 * GIB)
    assert apart.memory_limits == (16 * GIB, 16 * GIB)
    assert made.step_time.compute == pytest.approx(2 * apart.step_time.compute)
    assert any("2 ranks for each core" in words for words in made.warnings)


def test_what_was_measured_on_crowded_cores_is_slow_already() -> None:
    together = [replace(NODE, name=name, host="one", cores=1) for name in "ab"]
    spec = spec_of(world=2)
    crowded = estimate(spec, together, msgspec.structs.replace(RATES, crowding=2.0))
    assert crowded.step_time.compute == pytest.approx(estimated(spec).step_time.compute)


def test_attention_on_a_cpu_is_as_quick_as_one_of_its_heads() -> None:
    """More rows are more heads, each as slow as one; a GPU has all of them at once."""
    rates = msgspec.structs.replace(RATES, kinds={"attention": ((3e4, 1e9), (1e8, 1e11))})
    rows = [spec_of(batch_size=size, model={"heads": 8, "layers": 1}) for size in (1, 64)]
    other = [msgspec.structs.replace(RATES, kinds={"attention": ((3e4, 1e15),)})] * 2
    for node, is_pieced in ((NODE, True), (GPU, False)):
        few, many = (
            estimated(spec, node=node, rates=rates).step_time.compute
            - estimated(spec, node=node, rates=without).step_time.compute
            for spec, without in zip(rows, other, strict=True)
        )
        assert (many / few == pytest.approx(64, rel=0.01)) == is_pieced


def test_as_many_nodes_alike_as_are_missing_are_imagined() -> None:
    made = estimate(spec_of(world=4), [NODE], RATES)
    assert made.memory_limits == (16 * GIB,) * 4


@pytest.mark.parametrize(
    ("changes", "node", "words"),
    [
        ({"model": {"layers": 200, "width": 2048}}, NODE, "Does not fit: the rank needs"),
        ({"world": 2, "parallel": {"tensor": 2}}, NODE, "tensor ranks are on different machines"),
        ({"batch_size": 1}, GPU, "1 row a pass do not fill a GPU"),
        ({"recipe": "tabular", "data": {"source": "csv", "location": "/x.csv"}}, NODE, "32 columns of the table"),
        (
            {"world": 2, "batch_size": 2, "parallel": {"tensor": 2}, "model": {"layers": 8, "width": 32}},
            NODE,
            "wait for each other's messages",
        ),
        (
            {"world": 4, "batch_size": 4, "parallel": {"pipeline": {"stages": 4, "microbatches": 1}}},
            NODE,
            "The stages wait for each other",
        ),
    ],
    ids=["memory", "tensor", "gpu", "unknown", "waiting", "bubble"],
)
def test_what_a_person_should_know_is_said(changes: dict, node: object, words: str) -> None:  # type: ignore[type-arg]
    made = estimated(spec_of(**changes), node=node)  # type: ignore[arg-type]
    assert any(words in one for one in made.warnings), made.warnings


def test_rates_that_nobody_measured_are_told_of() -> None:
    made = estimated(spec_of(), rates=msgspec.structs.replace(RATES, is_measured=False))
    assert made.warnings[-1].startswith("Speeds are assumed")
    assert not made.is_measured


def test_an_estimate_is_json_with_its_totals() -> None:
    made = estimated(spec_of(world=2))
    document = json.loads(json.dumps(made.as_document()))
    assert document["memory"][1]["total"] == made.memory[1].total
    assert document["step_time"]["total"] == made.step_time.total
    assert document["unit"] == "tokens"


def test_the_spec_may_be_planned_for_fewer_nodes_than_it_asks_for() -> None:
    spec = spec_of(world=4, batch_size=32)
    assert len(estimate(spec, [NODE], RATES, num_nodes=2).memory) == 2
    with pytest.raises(ValueError, match="does not divide among 3 parts"):
        estimate(spec, [NODE], RATES, num_nodes=3)


def test_without_nodes_nothing_is_planned() -> None:
    with pytest.raises(ValueError, match="no node"):
        estimate(spec_of(), [], RATES)


def test_an_estimate_is_quick_however_deep_the_model() -> None:
    spec = spec_of(world=8, model={"layers": 1_000, "width": 1024}, batch_size=64)
    estimated(spec)
    started = time.process_time()
    for _ in range(20):
        estimated(spec)
    assert (time.process_time() - started) / 20 < 0.02


def test_ranks_that_share_sequences_share_activations_and_send_keys_and_values_round() -> None:
    sizes = {"layers": 4, "width": 128, "heads": 4, "context": 1024}
    alone, both = (
        estimated(spec_of(world=world, parallel=parallel, model=sizes, batch_size=8, checkpoint=NO_CHECKPOINTS))
        for world, parallel in ((1, {}), (2, {"context": 2}))
    )
    assert both.memory[0].activations == pytest.approx(alone.memory[0].activations / 2, rel=0.1)
    assert both.memory[0].parameters == alone.memory[0].parameters
    assert both.flops_per_step == alone.flops_per_step
    assert alone.step_time.compute / 2 < both.step_time.compute < alone.step_time.compute  # pieces are smaller
    gradients = 4 * both.num_parameters  # averaged as between copies
    numbers = 4 * 2 * 8 * 512 * 128  # keys and values of all layers: forward, backward, and twice their gradients
    assert both.sent_bytes == pytest.approx(gradients + 4 * 4 * numbers, rel=0.01)


def test_the_margin_is_a_part_of_what_comes_and_goes_and_a_gpu_needs_none() -> None:
    spec = spec_of(checkpoint=NO_CHECKPOINTS)
    (memory,) = estimated(spec).memory
    (plain,) = estimated(spec, node=GPU).memory
    kept = memory.margin / MARGIN - 4 * 590_976  # the gradients are made and freed too
    assert 0.8 * memory.activations < kept < memory.activations
    assert (plain.margin, plain.activations) == (0, memory.activations)
    assert estimated(spec_of(activation_checkpointing="full", checkpoint=NO_CHECKPOINTS)).memory[0].margin == (
        memory.margin  # all activations come and go all the same
    )


def test_the_range_is_in_the_document_around_its_middle() -> None:
    document = estimated(spec_of()).as_document()
    (memory,), time_of_step = document["memory"], document["step_time"]
    assert (memory["low"], memory["high"]) == (0.85 * memory["total"], pytest.approx(1.15 * memory["total"]))
    assert (time_of_step["low"], time_of_step["high"]) == (0.75 * time_of_step["total"], 1.25 * time_of_step["total"])


@pytest.mark.parametrize(
    ("share", "fit", "words"),
    [(1.2, Fit.FITS, ""), (1.1, Fit.MAY_NOT_FIT, "May not fit: "), (0.8, Fit.DOES_NOT_FIT, "Does not fit: ")],
)
def test_the_high_end_of_the_range_must_fit(share: float, fit: Fit, words: str) -> None:
    total = estimated(spec_of()).memory[0].total
    made = estimated(spec_of(), node=replace(NODE, memory_bytes=round(share * total)))
    assert (made.fit, made.fits, made.as_document()["fit"]) == (fit, fit is Fit.FITS, fit.value)
    assert "".join(made.warnings[:1])[: len(words)] == words


def test_tensor_ranks_copy_what_they_exchange() -> None:
    links = dict.fromkeys(RATES.links, msgspec.structs.replace(LINK, latency_s=0.0, bytes_per_s=1e15))
    made = estimated(
        spec_of(world=2, parallel={"tensor": 2}, batch_size=32), rates=msgspec.structs.replace(RATES, links=links)
    )
    exchanged = 34 * 32 * 128 * 128 * 4 + 2 * 32 * 128 * 4  # four in a layer both ways, and at both ends
    assert made.step_time.communication == pytest.approx(COPIES * exchanged / RATES.memory_bytes_per_s, rel=0.15)
