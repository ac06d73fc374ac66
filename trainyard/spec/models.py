"""The fields of a spec, in the order of the form: what, where, parallel, train, safety."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from trainyard.spec.fields import Argument, Code, Degree, Environment, Name, Number, Part, Script, Slug, Tag, field


class Model(Part):
    """The size of the language model."""

    layers: int = field(4, label="Layers", help="Transformer blocks.", group="what", minimum=1, maximum=1_000)
    width: int = field(
        128, label="Width", help="Features of a token; the heads divide it.", group="what", minimum=2, maximum=65_536
    )
    heads: int = field(4, label="Heads", help="Attention heads in a block.", group="what", minimum=1, maximum=1_024)
    context: int = field(
        128, label="Context", help="Tokens that the model sees at once.", group="what", minimum=1, maximum=1_048_576
    )


class Data(Part):
    """What the recipe trains on."""

    source: Literal["python-stdlib"] = field(
        "python-stdlib",
        label="Data",
        help="python-stdlib is the source text of Python's own library, which is on every node.",
        group="what",
    )


def _environment_field() -> Any:
    return field({}, label="Environment", help="Variables for the ranks.", group="what", advanced=True)


class RecipeTask(Part):
    """A training that Trainyard brings along."""

    recipe: Literal["language-model"] = field(
        label="Recipe", help="language-model trains a small GPT on text.", group="what"
    )
    model: Model = Model()
    data: Data = Data()
    environment: Environment = _environment_field()


class ScriptTask(Part):
    """The user's own script, run by every rank as torchrun would."""

    script: Script = field(label="Script", help="Path of the Python file inside the code's folder.", group="what")
    arguments: Annotated[list[Argument], Field(max_length=1_000)] = field(
        [], label="Arguments", help="Words behind the script's name on its command line.", group="what"
    )
    code: Code = field(
        ".",
        label="Code",
        help="A folder, which the command line packs (relative to the spec's file), or {sha256: …} of a stored bundle.",
        group="what",
        kind="text",
    )
    environment: Environment = _environment_field()


class Resources(Part):
    """How much of the cluster a run takes."""

    nodes: int = field(1, label="Nodes", help="Machines that train together.", group="where", minimum=1, maximum=10_000)
    processes_per_node: int = field(
        1,
        label="Processes per node",
        help="Ranks on each node; each takes one slot.",
        group="where",
        minimum=1,
        maximum=1_024,
    )
    accelerator: Literal["auto", "cpu", "gpu"] = field(
        "auto", label="Accelerator", help="auto takes GPUs where the nodes have them.", group="where"
    )


class Pipeline(Part):
    """Layers split over stages."""

    stages: int = field(
        1,
        label="Pipeline stages",
        help="Parts that the layers are split into.",
        group="parallel",
        advanced=True,
        minimum=1,
        maximum=1,
    )
    schedule: Literal["1f1b"] = field(
        "1f1b",
        label="Pipeline schedule",
        help="Order of the forward and backward passes.",
        group="parallel",
        advanced=True,
    )
    microbatches: Literal["auto"] = field(
        "auto",
        label="Microbatches",
        help="Pieces of a batch that flow through the stages.",
        group="parallel",
        advanced=True,
    )


class Synchronization(Part):
    """When ranks agree on their weights."""

    kind: Literal["every-step"] = field(
        "every-step",
        label="Synchronization",
        help="every-step averages the gradients in each step (DDP).",
        group="parallel",
        advanced=True,
    )


class Parallel(Part):
    """Degrees of parallelism; their product is the world size."""

    data: Degree = field(
        "auto",
        label="Data degree",
        help="Copies of the model; auto makes one of each rank.",
        group="parallel",
        kind="text",
    )
    shard: int = field(
        1,
        label="Shard degree",
        help="Ranks that share one copy's weights (FSDP2).",
        group="parallel",
        advanced=True,
        minimum=1,
        maximum=1,
    )
    tensor: int = field(
        1,
        label="Tensor degree",
        help="Ranks that split each layer.",
        group="parallel",
        advanced=True,
        minimum=1,
        maximum=1,
    )
    pipeline: Pipeline = Pipeline()
    synchronization: Synchronization = Synchronization()
    compression: Literal["none"] = field(
        "none", label="Gradient compression", help="How gradients travel.", group="parallel", advanced=True
    )


class Train(Part):
    """How the recipe trains."""

    steps: int = field(300, label="Steps", help="Optimiser steps.", group="train", minimum=1, maximum=1_000_000_000)
    batch_size: int = field(
        32,
        label="Batch size",
        help="Samples of an optimiser step over all ranks.",
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
    optimizer: Literal["adamw", "sgd"] = field("adamw", label="Optimizer", help="sgd has momentum 0.9.", group="train")
    learning_rate: Number = field(
        1e-3, label="Learning rate", help="The peak of the schedule.", group="train", above=0, maximum=1_000
    )
    schedule: Literal["constant", "linear", "cosine"] = field(
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
    scale_learning_rate: Literal["none"] = field(
        "none",
        label="Scale learning rate",
        help="Whether the learning rate grows with the batch.",
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
    precision: Literal["fp32"] = field(
        "fp32", label="Precision", help="Numbers that the model computes with.", group="train", advanced=True
    )
    activation_checkpointing: Literal["none"] = field(
        "none",
        label="Activation checkpointing",
        help="What is computed again in the backward pass to save memory.",
        group="train",
        advanced=True,
    )
    compile: Literal[False] = field(
        False, label="Compile", help="Whether torch.compile is used.", group="train", advanced=True, kind="bool"
    )
    seed: int = field(
        0,
        label="Seed",
        help="The same seed gives the same batches and first weights.",
        group="train",
        minimum=0,
        maximum=2**63 - 1,
    )


class Restarts(Part):
    """What happens after a failure."""

    max: int = field(
        0,
        label="Restarts",
        help="How often a failed run is placed again by itself.",
        group="safety",
        minimum=0,
        maximum=0,
    )


class Spec(Part):
    """What every run has. ``parse_spec`` makes one of its two kinds."""

    name: Name = field(label="Name", help="What the run is called; no control characters, no < and no >.", group="what")
    project: Slug = field("default", label="Project", help="Who owns the run.", group="what")
    cluster: Slug = field("local", label="Cluster", help="Whose nodes it runs on.", group="where")
    tags: Annotated[list[Tag], Field(max_length=50)] = field(
        [], label="Tags", help="Words to find the run by.", group="what"
    )
    resources: Resources = Resources()
    restarts: Restarts = Restarts()

    def resolved(self) -> dict[str, Any]:
        """Return the document with everything filled in, ready for JSON. ``parse_spec`` of it gives this Spec."""
        return self.model_dump(mode="json")

    def world_size(self, num_nodes: int | None = None) -> int:
        """Return the number of ranks on ``num_nodes`` nodes (as many as the spec asks for, where not given)."""
        return (num_nodes or self.resources.nodes) * self.resources.processes_per_node

    @property
    def bundle_sha256(self) -> str | None:
        """The digest of the script's stored code; None for a recipe, and for code that nobody packed yet."""
        return None


class RecipeSpec(Spec):
    """A run of a recipe."""

    task: RecipeTask
    parallel: Parallel = Parallel()
    train: Train = Train()


class ScriptSpec(Spec):
    """A run of the user's own script, which decides by itself how it trains."""

    task: ScriptTask

    @property
    def bundle_sha256(self) -> str | None:
        code = self.task.code
        return code["sha256"] if isinstance(code, dict) else None
