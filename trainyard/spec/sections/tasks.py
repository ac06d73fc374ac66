"""What a run does: one of the recipes with its model and data, or the user's own script."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from trainyard.spec.problems import show
from trainyard.spec.sections.data import ImageData, TableData, TextData
from trainyard.spec.values.fields import Argument, Code, Degree, Environment, Interpreter, Needs, Part, Script, field


def environment_field() -> Any:
    return field({}, label="Environment", help="Variables for the ranks.", group="what", advanced=True)


def recipe_field(help: str) -> Any:
    return field(label="Recipe", help=help, group="what")


def heads_field(needs: Needs | None = None) -> Any:
    return field(
        4,
        label="Heads",
        help="Attention heads in a transformer block.",
        group="what",
        minimum=1,
        maximum=1_024,
        needs=needs,
    )


class Model(Part):
    """What all models have: blocks one after the other, all of a width."""

    layers: int = field(
        4,
        label="Layers",
        help="Blocks one after the other: of a transformer, of a ResNet, or hidden layers.",
        group="what",
        minimum=1,
        maximum=1_000,
    )
    width: int = field(
        128,
        label="Width",
        help="Features that flow between the blocks; channels of a ResNet's first ones.",
        group="what",
        minimum=2,
        maximum=65_536,
    )


class GPTModel(Model):
    """The size of the language model."""

    heads: int = heads_field()
    kv_heads: Degree = field(
        "auto",
        label="Key and value heads",
        help="Heads of keys and values, each shared by a group of queries; auto has one for each.",
        group="what",
        advanced=True,
        kind="text",
    )
    context: int = field(
        128, label="Context", help="Tokens that the model sees at once.", group="what", minimum=1, maximum=1_048_576
    )


class ImageModel(Model):
    """The size of the image classifier. ``heads`` and ``patch`` are a ViT's."""

    architecture: Literal["resnet", "vit"] = field(
        "resnet", label="Architecture", help="resnet convolves; vit is a transformer over patches.", group="what"
    )
    heads: int = heads_field(Needs("task.model.architecture", ("vit",)))
    patch: int = field(
        2,
        label="Patch",
        help="Pixels of the side of a patch.",
        group="what",
        minimum=1,
        maximum=1_024,
        needs=Needs("task.model.architecture", ("vit",)),
    )


class RecipeTask(Part):
    """A training that Trainyard brings along."""

    recipe: str
    model: Model = Model()
    environment: Environment = environment_field()


class LanguageModelTask(RecipeTask):
    """A GPT that learns to continue text."""

    recipe: Literal["language-model"] = recipe_field("A GPT that learns to continue text.")
    model: GPTModel = GPTModel()
    data: TextData = TextData()


class ImageClassifierTask(RecipeTask):
    """A ResNet or ViT that tells classes of images apart."""

    recipe: Literal["image-classifier"] = recipe_field("A ResNet or ViT that tells images apart.")
    model: ImageModel = ImageModel()
    data: ImageData = ImageData()


class TabularTask(RecipeTask):
    """An MLP that tells one column of a table from the others."""

    recipe: Literal["tabular"] = recipe_field("An MLP over the columns of a table.")
    model: Model = Model()
    data: TableData = TableData()


Operation = Literal["all-reduce", "all-gather", "reduce-scatter", "send-receive", "ring", "parameter-server", "compute"]
OPERATIONS: tuple[Operation, ...] = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "send-receive",
    "ring",
    "parameter-server",
    "compute",
)


# Some operations hold it once for each rank.
LARGEST_MESSAGE = 2**30


def _once(operations: list[str]) -> list[str]:
    for one in operations:
        if operations.count(one) > 1:
            raise ValueError(f"must name each operation once, and has {show(one)} {operations.count(one)} times")
    return operations


class CommunicationTask(Part):
    """No training: how fast ranks exchange tensors and compute, on the nodes that were chosen."""

    recipe: Literal["communication-benchmark"] = recipe_field("How fast the chosen nodes exchange tensors.")
    operations: Annotated[list[Operation], Field(min_length=1), AfterValidator(_once)] = field(
        list(OPERATIONS),
        label="Operations",
        help="What is measured; compute is what a node does alone, which the planner counts with.",
        group="what",
    )
    smallest_bytes: int = field(
        1024, label="Smallest message", help="Bytes.", group="what", minimum=8, maximum=LARGEST_MESSAGE
    )
    largest_bytes: int = field(
        16 * 2**20,
        label="Largest message",
        help="Bytes; sizes grow from the smallest by a factor of 4.",
        group="what",
        minimum=8,
        maximum=LARGEST_MESSAGE,
    )
    repeats: int = field(
        20,
        label="Repeats",
        help="Timed exchanges of each size; the median counts.",
        group="what",
        minimum=3,
        maximum=10_000,
    )
    environment: Environment = environment_field()


class ScriptTask(Part):
    """The user's own script, run by every rank as torchrun would."""

    script: Script = field(label="Script", help="Path of the Python file inside the code's folder.", group="what")
    arguments: Annotated[list[Argument], Field(max_length=1_000)] = field(
        [],
        label="Arguments",
        help="Words behind the script's name on its command line; ${NAME} is a variable of the rank.",
        group="what",
    )
    code: Code = field(
        ".",
        label="Code",
        help="A folder, which the command line packs (relative to the spec's file), or {sha256: …} of a stored bundle.",
        group="what",
        kind="text",
    )
    python: Interpreter = field(
        "",
        label="Python",
        help="Another interpreter on the node: its path, or its name on PATH. Empty is the node's own, which is warm.",
        group="what",
        advanced=True,
    )
    distributed: bool = field(
        False,
        label="Distributed",
        help="Whether a single process gets torchrun's variables (RANK, WORLD_SIZE, …) too. Several always have them.",
        group="what",
        advanced=True,
    )
    environment: Environment = environment_field()
