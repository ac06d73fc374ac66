"""Training of a recipe, and what is kept of it on the way."""

from typing import Literal

from trainyard.spec.values.durations import DEFAULT_GRACE_S, DEFAULT_IDLE_S, duration
from trainyard.spec.values.fields import (
    Grace,
    Needs,
    Number,
    Part,
    Point,
    StepsOrAuto,
    TimeLimit,
    Window,
    more_safety,
    more_train,
    safety_field,
    train_field,
)


class Train(Part):
    """Settings of a recipe's training."""

    steps: int = train_field(300, "Steps", "Optimizer steps.", within=(1, 1_000_000_000))
    batch_size: int = train_field(
        32, "Batch size", "Samples of an optimizer step over all ranks.", within=(1, 1_000_000_000)
    )
    accumulate: int = train_field(
        1,
        "Accumulate",
        "Passes whose gradients make one step; each takes its part of the batch.",
        within=(1, 1_000_000),
    )
    optimizer: Literal["adamw", "sgd", "muon"] = train_field(
        "adamw", "Optimizer", "sgd has momentum 0.9; muon is for the matrices of the blocks, beside adamw for the rest."
    )
    learning_rate: Number = train_field(
        1e-3, "Learning rate", "The peak of the schedule.", within=(0, 1_000), is_above=True
    )
    schedule: Literal["constant", "linear", "cosine", "warmup-stable-decay"] = train_field(
        "cosine", "Schedule", "How the learning rate falls after the warm-up."
    )
    warmup_steps: int = train_field(
        lambda above: min(20, above.get("steps", 20)),
        "Warm-up steps",
        "Steps in which the learning rate rises from 0; at most steps.",
        within=(0, 1_000_000_000),
    )
    weight_decay: Number = train_field(0.1, "Weight decay", "Pull of the weights towards 0.", within=(0, 1_000))
    gradient_clip: Number = train_field(
        1.0, "Gradient clip", "Largest norm of all gradients; 0 is no limit.", within=(0, 1e9)
    )
    find_batch_size: Literal["none", "memory", "throughput", "noise-scale"] = more_train(
        "none",
        "Find batch size",
        "Before the first step, grow batch_size until memory is full or the throughput gains no more, or take the "
        "size at which the gradient is as large as its noise.",
    )
    scale_learning_rate: Literal["none", "linear", "sqrt"] = more_train(
        "none",
        "Scale learning rate",
        "How the learning rate grows when a larger batch was found.",
        needs=Needs("train.find_batch_size", ("memory", "throughput", "noise-scale")),
    )
    find_learning_rate: Literal["none", "range-test"] = more_train(
        "none",
        "Find learning rate",
        "Before the first step, try rates from far too small to far too large for 100 steps that are thrown away, "
        "and take the one with which the loss fell fastest in place of learning_rate.",
    )
    validate_every_steps: int = train_field(
        50,
        "Validate every",
        "Steps between two validations; there is one at the start and one at the end too, and with 0 only these.",
        within=(0, 1_000_000_000),
    )
    precision: Literal["fp32", "bf16", "fp16"] = more_train(
        "fp32", "Precision", "Numbers that the model computes with."
    )
    activation_checkpointing: Literal["none", "selective", "full"] = more_train(
        "none", "Activation checkpointing", "What is computed again in the backward pass to save memory."
    )
    compile: bool = more_train(False, "Compile", "Whether torch.compile is used.")
    seed: int = train_field(0, "Seed", "The same seed gives the same batches and first weights.", within=(0, 2**63 - 1))


class Checkpoint(Part):
    """States that are kept to go on from."""

    every_steps: int = safety_field(
        100,
        "Checkpoint every",
        "Steps between two checkpoints; there is one at the end too. 0 keeps none.",
        within=(0, 1_000_000_000),
    )
    keep: int = safety_field(
        3,
        "Keep",
        "Checkpoints that are kept; older ones go.",
        within=(1, 1_000),
        needs=Needs("checkpoint.every_steps", above=0),
    )
    replicate_every_steps: StepsOrAuto = safety_field(
        "auto",
        "In memory every",
        "Steps between two copies of the state in the memory of nodes, for restarts; 0 keeps none there, and auto "
        "takes what costs at most 1 % of the time of a step.",
        kind="text",
        needs=Needs("checkpoint.every_steps", above=0),
    )
    restore: Point = more_safety(
        "",
        "Continue from",
        "A checkpoint RUN@STEP of the same model to start from, such as 272bay33uw@200; empty starts anew.",
    )


class EarlyStopping(Part):
    """End of a run that learns no more, before its last step."""

    metric: Literal["val/loss", "val/accuracy", "val/r2"] = more_safety(
        "val/loss",
        "Stop by",
        "The metric that has to get better: a loss falls, accuracy (of classes) and r2 (of a quantity) rise.",
        needs=Needs("early_stopping.patience", above=0),
    )
    patience: int = safety_field(
        0,
        "Patience",
        "Validations in a row without a better value after which the run ends; 0 trains to the last step.",
        within=(0, 1_000_000),
    )
    min_delta: Number = more_safety(
        0.0,
        "Min delta",
        "By how much a value must be better to count.",
        within=(0, 1e9),
        needs=Needs("early_stopping.patience", above=0),
    )


class Limits(Part):
    """Time limits of a run, and grace period of its ranks."""

    time: TimeLimit = safety_field(
        "",
        "Time limit",
        "How long the ranks of an attempt may run, such as 90m or 2h; then they are stopped. Empty is no limit.",
    )
    idle: Window = more_safety(
        duration(DEFAULT_IDLE_S),
        "Idle",
        "How long nobody may use a notebook, and nothing may run in it, before it ends, such as 60m.",
    )
    grace: Grace = safety_field(
        duration(DEFAULT_GRACE_S),
        "Grace",
        "How long the ranks have to save and end when the run is stopped, such as 60s; then they are killed.",
    )
