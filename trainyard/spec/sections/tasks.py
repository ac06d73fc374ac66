"""Tasks of runs: one of the recipes with its model and data, or the user's own script."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from trainyard.spec.problems import show
from trainyard.spec.sections.data import ImageData, TableData, TextData
from trainyard.spec.values.code import Code
from trainyard.spec.values.fields import (
    Argument,
    CommandLine,
    Degree,
    Environment,
    Interpreter,
    Module,
    Needs,
    Part,
    Script,
    more_what,
    what_field,
)
from trainyard.spec.values.references import Secrets


def environment_field() -> Any:
    return more_what({}, "Variables", "Environment variables of the ranks.")


def secrets_field() -> Any:
    return more_what(
        [],
        "Secrets",
        "Secrets of the project by name, each in a variable of that name: HF_TOKEN. KEY=NAME is another variable, "
        "file:NAME the path of a file, mine:NAME a secret of your own.",
        kind="list",
    )


def recipe_field(help: str) -> Any:
    return what_field(..., "Recipe", help)


def heads_field(needs: Needs | None = None) -> Any:
    return what_field(4, "Heads", "Attention heads in a transformer block.", within=(1, 1_024), needs=needs)


class Model(Part):
    """Fields that all models have: blocks one after the other, all of a width."""

    layers: int = what_field(
        4, "Layers", "Blocks one after the other: of a transformer, of a ResNet, or hidden layers.", within=(1, 1_000)
    )
    width: int = what_field(
        128, "Width", "Features that flow between the blocks; channels of a ResNet's first ones.", within=(2, 65_536)
    )


class GPTModel(Model):
    """The size of the language model."""

    heads: int = heads_field()
    kv_heads: Degree = more_what(
        "auto",
        "Key and value heads",
        "Heads of keys and values, each shared by a group of queries; auto has one for each.",
        kind="text",
    )
    context: int = what_field(128, "Context", "Tokens that the model sees at once.", within=(1, 1_048_576))
    base_width: int = more_what(
        0,
        "Base width",
        "The width at which the learning rate was found, with as many heads: muP carries it over to this width. "
        "0 is off.",
        within=(0, 65_536),
    )


class ImageModel(Model):
    """The size of the image classifier. ``heads`` and ``patch`` are a ViT's."""

    architecture: Literal["resnet", "vit"] = what_field(
        "resnet", "Architecture", "resnet convolves; vit is a transformer over patches."
    )
    heads: int = heads_field(Needs("task.model.architecture", ("vit",)))
    patch: int = what_field(
        2,
        "Patch",
        "Pixels of the side of a patch.",
        within=(1, 1_024),
        needs=Needs("task.model.architecture", ("vit",)),
    )


class RecipeTask(Part):
    """A training that Trainyard brings along."""

    recipe: str
    model: Model = Model()
    environment: Environment = environment_field()
    secrets: Secrets = secrets_field()


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
OPERATIONS: tuple[Operation, ...] = get_args(Operation)


# Some operations hold it once for each rank.
LARGEST_MESSAGE = 2**30


def _once(operations: list[str]) -> list[str]:
    for one in operations:
        if operations.count(one) > 1:
            raise ValueError(f"must name each once, and has {show(one)} {operations.count(one)} times")
    return operations


class CommunicationTask(Part):
    """No training: how fast ranks exchange tensors and compute, on the nodes that were chosen."""

    recipe: Literal["communication-benchmark"] = recipe_field("How fast the chosen nodes exchange tensors.")
    operations: Annotated[list[Operation], Field(min_length=1), AfterValidator(_once)] = what_field(
        list(OPERATIONS),
        "Operations",
        "What is measured; compute is what a node does alone, which the planner counts with.",
    )
    smallest_bytes: int = what_field(1024, "Smallest message", "Bytes.", within=(8, LARGEST_MESSAGE))
    largest_bytes: int = what_field(
        16 * 2**20,
        "Largest message",
        "Bytes; sizes grow from the smallest by a factor of 4.",
        within=(8, LARGEST_MESSAGE),
    )
    repeats: int = what_field(20, "Repeats", "Timed exchanges of each size; the median counts.", within=(3, 10_000))
    environment: Environment = environment_field()
    secrets: Secrets = secrets_field()


PROGRAMS = ("script", "module", "command", "notebook")


Launcher = Literal["torchrun", "tensorflow", "mpi", "jax", "horovod", "spark"]


def _launchers(value: object) -> object:
    """A word stands for a list of one, and none for an empty one."""
    return [] if value in ("none", None) else [value] if isinstance(value, str) else value


Launch = Annotated[list[Launcher], BeforeValidator(_launchers), AfterValidator(_once), WithJsonSchema(
    {"anyOf": [{"type": "array", "items": {"enum": list(get_args(Launcher))}},
               {"enum": ["none", *get_args(Launcher)]}]})]  # fmt: skip


class ScriptTask(Part):
    """The user's own code, run by every rank as torchrun would: a script, a module or a command, or a notebook for a
    person to work in, exactly one of them. The others are empty."""

    script: Script = what_field("", "Script", "Path of the Python file inside the code's folder: python train.py.")
    module: Module = what_field(
        "", "Module", "In place of a script, a module of the code or of an installed package: python -m pkg.train."
    )
    command: CommandLine = what_field(
        [],
        "Command",
        "In place of a script, a program and its words, without a shell. With a slash (./train.sh) it is a file "
        "of the code; without one it is looked for on the rank's PATH. ${NAME} is a variable of the rank.",
    )
    notebook: bool = what_field(
        False,
        "Notebook",
        "In place of a script, JupyterLab on one node, for a person to work in. Its interpreter has jupyterlab.",
    )
    arguments: Annotated[list[Argument], Field(max_length=1_000)] = what_field(
        [], "Arguments", "Words behind the script, the module or the command; ${NAME} is a variable of the rank."
    )
    code: Code = what_field(
        ".",
        "Code",
        "A folder or file, which the command line packs (relative to the spec's file), {git: URL, revision: …} of "
        "a repository, or {sha256: …} of a stored bundle.",
        kind="text",
    )
    python: Interpreter = more_what(
        "",
        "Python",
        "Another interpreter on the node: its path, or its name on PATH. Empty is the node's own, which is warm.",
    )
    distributed: bool = more_what(
        False,
        "Distributed",
        "Whether a single process gets torchrun's variables (RANK, WORLD_SIZE, …) too. Several always have them.",
    )
    launch: Launch = more_what(
        ["torchrun"],
        "Launched as by",
        "Whose variables the ranks find each other by: torchrun's, TensorFlow's TF_CONFIG, those of mpirun, JAX's or "
        "Horovod's. With spark rank 0 runs the script, on a Spark whose workers are the ranks. none gives them none.",
    )
    shadow: bool = more_what(
        False,
        "Shadow",
        "Whether what the program sends to W&B, MLflow or Lightning's CSVLogger is also the run's. TensorBoard's "
        "files are by themselves.",
    )
    environment: Environment = environment_field()
    secrets: Secrets = secrets_field()

    @property
    def programs(self) -> list[str]:
        """Those of the three that are given: exactly one in a valid spec."""
        return [name for name in PROGRAMS if getattr(self, name)]

    def missing_in(self, files: Collection[str]) -> tuple[str, str]:
        """Return the field and a sentence about what these files of the code do not have; empty where nothing is known
        to be missing. A module may also be of a package that is installed on the nodes."""
        if self.script and self.script not in files:
            return "script", f"there is no file {show(self.script)} in the code"
        if self.module:
            path = self.module.replace(".", "/")
            top = path.partition("/")[0]
            is_own = any(name in (f"{top}.py", top) or name.startswith(f"{top}/") for name in files)
            if is_own and not {f"{path}.py", f"{path}/__main__.py"} & set(files):
                words = f"there is no file {show(f'{path}.py')} and no {show(f'{path}/__main__.py')} in the code"
                return "module", words
        program = code_program(self.command)
        if program and program not in files:
            return "command", f"there is no file {show(program)} in the code"
        return "", ""


def code_program(command: Sequence[str]) -> str:
    """Return the path of a command's program inside the code's folder; empty for one that is the node's own."""
    if not command or "/" not in command[0] or PurePosixPath(command[0]).is_absolute():
        return ""
    return str(PurePosixPath(command[0]))


def is_own_code(task: Mapping[str, object]) -> bool:
    """Return whether a task, checked or not, runs the user's own code and no recipe."""
    return any(name in task for name in PROGRAMS)
