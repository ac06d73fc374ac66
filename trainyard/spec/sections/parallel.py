"""Division of the work among ranks: degrees whose product is the world size, when ranks agree, and how gradients
travel."""

from typing import Literal

from trainyard.contract.base import SpecDocument
from trainyard.spec.values.fields import Degree, Needs, Number, Part, more_parallel, parallel_field

KIND = "parallel.synchronization.kind"
STAGES = Needs("parallel.pipeline.stages", above=1)


class Pipeline(Part):
    """Layers split over stages."""

    stages: int = parallel_field(
        1, "Pipeline stages", "Parts that the layers are split into, each on ranks of its own.", within=(1, 1_000)
    )
    schedule: Literal["1f1b", "gpipe", "interleaved", "zero-bubble", "layer-wise"] = parallel_field(
        "1f1b",
        "Pipeline schedule",
        "Order of the forward and backward passes; layer-wise sends the whole batch through one stage at a time.",
        needs=STAGES,
    )
    microbatches: Degree = parallel_field(
        "auto",
        "Microbatches",
        "Pieces of a batch that flow through the stages; auto takes 2 a stage, as far as the batch divides.",
        kind="text",
        needs=STAGES,
    )


class Synchronization(Part):
    """Moments at which ranks agree on their weights."""

    kind: Literal["every-step", "local-sgd", "diloco", "parameter-server"] = parallel_field(
        "every-step",
        "Synchronization",
        "every-step averages the gradients in each step (DDP); the others let ranks go their own way for a while.",
    )
    every_steps: int = parallel_field(
        10,
        "Synchronize every",
        "Steps between two averages of local-sgd and diloco.",
        within=(1, 1_000_000),
        needs=Needs(KIND, ("local-sgd", "diloco")),
    )
    outer_learning_rate: Number = parallel_field(
        0.7,
        "Outer learning rate",
        "Of diloco's Nesterov step over the averaged change.",
        within=(0, 10),
        is_above=True,
        needs=Needs(KIND, ("diloco",)),
    )
    outer_momentum: Number = parallel_field(
        0.9, "Outer momentum", "Of diloco's Nesterov step.", within=(0, 0.999), needs=Needs(KIND, ("diloco",))
    )
    max_staleness: int = parallel_field(
        4,
        "Max staleness",
        "Steps that the fastest worker of a parameter-server may be ahead of the slowest.",
        within=(0, 1_000),
        needs=Needs(KIND, ("parameter-server",)),
    )


class Parallel(Part):
    """Degrees of parallelism; their product is the world size."""

    data: Degree = parallel_field(
        "auto", "Data degree", "Copies of the model; auto makes as many as the other degrees leave.", kind="text"
    )
    shard: int = parallel_field(1, "Shard degree", "Ranks that share one copy's weights (FSDP2).", within=(1, 10_000))
    reshard_after_forward: bool = parallel_field(
        True,
        "Reshard after forward",
        "Whether gathered weights are dropped between forward and backward (ZeRO-3); kept, it is ZeRO-2. "
        "A pipeline always keeps them.",
        needs=Needs("parallel.shard", above=1),
    )
    tensor: int = parallel_field(
        1, "Tensor degree", "Ranks that split each layer, its sequence and its loss.", within=(1, 1_024)
    )
    context: int = more_parallel(
        1, "Context degree", "Ranks that share the tokens of each sequence (ring attention).", within=(1, 1_024)
    )
    pipeline: Pipeline = Pipeline()
    synchronization: Synchronization = Synchronization()
    compression: Literal["none", "fp16", "bf16", "powersgd", "topk"] = more_parallel(
        "none", "Gradient compression", "How gradients travel."
    )
    topk_ratio: Number = more_parallel(
        0.01,
        "Top-k ratio",
        "Share of each tensor's gradient that topk sends, the largest entries first; the rest waits.",
        within=(0, 1),
        is_above=True,
        needs=Needs("parallel.compression", ("topk",)),
    )
    balance: Literal["none", "speed"] = more_parallel(
        "none",
        "Balance",
        "speed gives each copy rows of the batch by its measured speed, so that unequal ranks wait less.",
    )


def outlives_workers(spec: SpecDocument) -> bool:
    """Return whether a run of this spec goes on when a rank dies, as long as rank 0, which holds its weights, lives."""
    parallel = spec.get("parallel") or {}
    return bool((parallel.get("synchronization") or {}).get("kind") == "parameter-server")
