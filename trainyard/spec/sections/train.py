"""Training of a recipe, and what is kept of it on the way."""

from typing import Literal

from trainyard.spec.values.durations import DEFAULT_GRACE_S, DEFAULT_IDLE_S, duration
from trainyard.spec.values.fields import Grace, Needs, Number, Part, Point, StepsOrAuto, TimeLimit, Window, field


class Train(Part):
    """Settings of a recipe's training."""

    steps: int = field(300, label="Steps", help="Optimizer steps.", group="train", minimum=1, maximum=1_000_000_000)
    batch_size: int = field(
        32,
        label="Batch size",
        help="Samples of an optimizer step over all ranks.",
        group="train",
        minimum=1,
        maximum=1_000_000_000,
    )
    accumulate: int = field(
        1,
        label="Accumulate",
        help="Passes whose gradients make one step; each takes its part of the batch.",
        group="train",
        minimum=1,
        maximum=1_000_000,
    )
    optimizer: Literal["adamw", "sgd", "muon"] = field(
        "adamw",
        label="Optimizer",
        help="sgd has momentum 0.9; muon is for the matrices of the blocks, beside adamw for the rest.",
        group="train",
    )
    learning_rate: Number = field(
        1e-3, label="Learning rate", help="The peak of the schedule.", group="train", above=0, maximum=1_000
    )
    schedule: Literal["constant", "linear", "cosine", "warmup-stable-decay"] = field(
        "cosine", label="Schedule", help="How the learning rate falls after the warm-up.", group="train"
    )
    warmup_steps: int = field(
        default_factory=lambda above: min(20, above.get("steps", 20)),
        label="Warm-up steps",
        help="Steps in which the learning rate rises from 0; at most steps.",
        group="train",
        minimum=0,
        maximum=1_000_000_000,
    )
    weight_decay: Number = field(
        0.1, label="Weight decay", help="Pull of the weights towards 0.", group="train", minimum=0, maximum=1_000
    )
    gradient_clip: Number = field(
        1.0,
        label="Gradient clip",
        help="Largest norm of all gradients; 0 is no limit.",
        group="train",
        minimum=0,
        maximum=1e9,
    )
    find_batch_size: Literal["none", "memory", "throughput", "noise-scale"] = field(
        "none",
        label="Find batch size",
        help="Before the first step, grow batch_size until memory is full or the throughput gains no more, or take the "
        "size at which the gradient is as large as its noise.",
        group="train",
        advanced=True,
    )
    scale_learning_rate: Literal["none", "linear", "sqrt"] = field(
        "none",
        label="Scale learning rate",
        help="How the learning rate grows when a larger batch was found.",
        group="train",
        advanced=True,
        needs=Needs("train.find_batch_size", ("memory", "throughput", "noise-scale")),
    )
    find_learning_rate: Literal["none", "range-test"] = field(
        "none",
        label="Find learning rate",
        help="Before the first step, try rates from far too small to far too large for 100 steps that are thrown away, "
        "and take the one with which the loss fell fastest in place of learning_rate.",
        group="train",
        advanced=True,
    )
    validate_every_steps: int = field(
        50,
        label="Validate every",
        help="Steps between two validations; there is one at the start and one at the end too, and with 0 only these.",
        group="train",
        minimum=0,
        maximum=1_000_000_000,
    )
    precision: Literal["fp32", "bf16", "fp16"] = field(
        "fp32", label="Precision", help="Numbers that the model computes with.", group="train", advanced=True
    )
    activation_checkpointing: Literal["none", "selective", "full"] = field(
        "none",
        label="Activation checkpointing",
        help="What is computed again in the backward pass to save memory.",
        group="train",
        advanced=True,
    )
    compile: bool = field(False, label="Compile", help="Whether torch.compile is used.", group="train", advanced=True)
    seed: int = field(
        0,
        label="Seed",
        help="The same seed gives the same batches and first weights.",
        group="train",
        minimum=0,
        maximum=2**63 - 1,
    )


class Checkpoint(Part):
    """States that are kept to go on from."""

    every_steps: int = field(
        100,
        label="Checkpoint every",
        help="Steps between two checkpoints; there is one at the end too. 0 keeps none.",
        group="safety",
        minimum=0,
        maximum=1_000_000_000,
    )
    keep: int = field(
        3,
        label="Keep",
        help="Checkpoints that are kept; older ones go.",
        group="safety",
        minimum=1,
        maximum=1_000,
        needs=Needs("checkpoint.every_steps", above=0),
    )
    replicate_every_steps: StepsOrAuto = field(
        "auto",
        label="In memory every",
        help="Steps between two copies of the state in the memory of nodes, for restarts; 0 keeps none there, and auto "
        "takes what costs at most 1 % of the time of a step.",
        group="safety",
        kind="text",
        needs=Needs("checkpoint.every_steps", above=0),
    )
    restore: Point = field(
        "",
        label="Continue from",
        help="A checkpoint RUN@STEP of the same model to start from, such as 272bay33uw@200; empty starts anew.",
        group="safety",
        advanced=True,
    )


class EarlyStopping(Part):
    """End of a run that learns no more, before its last step."""

    metric: Literal["val/loss", "val/accuracy", "val/r2"] = field(
        "val/loss",
        label="Stop by",
        help="The metric that has to get better: a loss falls, accuracy (of classes) and r2 (of a quantity) rise.",
        group="safety",
        advanced=True,
        needs=Needs("early_stopping.patience", above=0),
    )
    patience: int = field(
        0,
        label="Patience",
        help="Validations in a row without a better value after which the run ends; 0 trains to the last step.",
        group="safety",
        minimum=0,
        maximum=1_000_000,
    )
    min_delta: Number = field(
        0.0,
        label="Min delta",
        help="By how much a value must be better to count.",
        group="safety",
        advanced=True,
        minimum=0,
        maximum=1e9,
        needs=Needs("early_stopping.patience", above=0),
    )


class Limits(Part):
    """Time limits of a run, and grace period of its ranks."""

    time: TimeLimit = field(
        "",
        label="Time limit",
        help="How long the ranks of an attempt may run, such as 90m or 2h; then they are stopped. Empty is no limit.",
        group="safety",
    )
    idle: Window = field(
        duration(DEFAULT_IDLE_S),
        label="Idle",
        help="How long nobody may use a notebook, and nothing may run in it, before it ends, such as 60m.",
        group="safety",
        advanced=True,
    )
    grace: Grace = field(
        duration(DEFAULT_GRACE_S),
        label="Grace",
        help="How long the ranks have to save and end when the run is stopped, such as 60s; then they are killed.",
        group="safety",
    )
