"""Division of the work among ranks: degrees whose product is the world size, when ranks agree, and how gradients
travel."""

from typing import Literal

from trainyard.spec.values.fields import Degree, Needs, Number, Part, field

KIND = "parallel.synchronization.kind"
STAGES = Needs("parallel.pipeline.stages", above=1)


class Pipeline(Part):
    """Layers split over stages."""

    stages: int = field(
        1,
        label="Pipeline stages",
        help="Parts that the layers are split into, each on ranks of its own.",
        group="parallel",
        minimum=1,
        maximum=1_000,
    )
    schedule: Literal["1f1b", "gpipe", "interleaved", "zero-bubble", "layer-wise"] = field(
        "1f1b",
        label="Pipeline schedule",
        help="Order of the forward and backward passes; layer-wise sends the whole batch through one stage at a time.",
        group="parallel",
        needs=STAGES,
    )
    microbatches: Degree = field(
        "auto",
        label="Microbatches",
        help="Pieces of a batch that flow through the stages; auto takes 2 a stage, as far as the batch divides.",
        group="parallel",
        kind="text",
        needs=STAGES,
    )


class Synchronization(Part):
    """Moments at which ranks agree on their weights."""

    kind: Literal["every-step", "local-sgd", "diloco", "parameter-server"] = field(
        "every-step",
        label="Synchronization",
        help="every-step averages the gradients in each step (DDP); the others let ranks go their own way for a while.",
        group="parallel",
    )
    every_steps: int = field(
        10,
        label="Synchronize every",
        help="Steps between two averages of local-sgd and diloco.",
        group="parallel",
        minimum=1,
        maximum=1_000_000,
        needs=Needs(KIND, ("local-sgd", "diloco")),
    )
    outer_learning_rate: Number = field(
        0.7,
        label="Outer learning rate",
        help="Of diloco's Nesterov step over the averaged change.",
        group="parallel",
        above=0,
        maximum=10,
        needs=Needs(KIND, ("diloco",)),
    )
    outer_momentum: Number = field(
        0.9,
        label="Outer momentum",
        help="Of diloco's Nesterov step.",
        group="parallel",
        minimum=0,
        maximum=0.999,
        needs=Needs(KIND, ("diloco",)),
    )
    max_staleness: int = field(
        4,
        label="Max staleness",
        help="Steps that the fastest worker of a parameter-server may be ahead of the slowest.",
        group="parallel",
        minimum=0,
        maximum=1_000,
        needs=Needs(KIND, ("parameter-server",)),
    )


class Parallel(Part):
    """Degrees of parallelism; their product is the world size."""

    data: Degree = field(
        "auto",
        label="Data degree",
        help="Copies of the model; auto makes as many as the other degrees leave.",
        group="parallel",
        kind="text",
    )
    shard: int = field(
        1,
        label="Shard degree",
        help="Ranks that share one copy's weights (FSDP2).",
        group="parallel",
        minimum=1,
        maximum=10_000,
    )
    reshard_after_forward: bool = field(
        True,
        label="Reshard after forward",
        help="Whether gathered weights are dropped between forward and backward (ZeRO-3); kept, it is ZeRO-2. "
        "A pipeline always keeps them.",
        group="parallel",
        needs=Needs("parallel.shard", above=1),
    )
    tensor: int = field(
        1,
        label="Tensor degree",
        help="Ranks that split each layer, its sequence and its loss.",
        group="parallel",
        minimum=1,
        maximum=1_024,
    )
    context: int = field(
        1,
        label="Context degree",
        help="Ranks that share the tokens of each sequence (ring attention).",
        group="parallel",
        minimum=1,
        maximum=1_024,
        advanced=True,
    )
    pipeline: Pipeline = Pipeline()
    synchronization: Synchronization = Synchronization()
    compression: Literal["none", "fp16", "bf16", "powersgd", "topk"] = field(
        "none", label="Gradient compression", help="How gradients travel.", group="parallel", advanced=True
    )
    topk_ratio: Number = field(
        0.01,
        label="Top-k ratio",
        help="Share of each tensor's gradient that topk sends, the largest entries first; the rest waits.",
        group="parallel",
        above=0,
        maximum=1,
        advanced=True,
        needs=Needs("parallel.compression", ("topk",)),
    )
    balance: Literal["none", "speed"] = field(
        "none",
        label="Balance",
        help="speed gives each copy rows of the batch by its measured speed, so that unequal ranks wait less.",
        group="parallel",
        advanced=True,
    )
