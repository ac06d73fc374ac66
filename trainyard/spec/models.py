"""The fields of a spec, in the order of the form: what, where, parallel, train, safety."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from trainyard.spec.fields import Argument, Code, Environment, Name, Part, Script, Slug, Tag, field
from trainyard.spec.mesh import Mesh, make_mesh
from trainyard.spec.parallel import Parallel
from trainyard.spec.train import Checkpoint, EarlyStopping, Restarts, Train


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
    checkpoint: Checkpoint = Checkpoint()
    early_stopping: EarlyStopping = EarlyStopping()

    def mesh(self, num_nodes: int | None = None) -> Mesh:
        """Return how the ranks share the work. Raises ValueError where the degrees do not multiply to the world size,
        which ``parse_spec`` refuses for the nodes that the spec asks for."""
        return make_mesh(self.parallel.model_dump(), self.world_size(num_nodes))


class ScriptSpec(Spec):
    """A run of the user's own script, which decides by itself how it trains."""

    task: ScriptTask

    @property
    def bundle_sha256(self) -> str | None:
        code = self.task.code
        return code["sha256"] if isinstance(code, dict) else None
