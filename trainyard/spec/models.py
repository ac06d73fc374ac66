"""The fields of a spec, in the order of the form: what, where, parallel, train, safety."""

from typing import Annotated, Self

from pydantic import Field

from trainyard.contract.base import SpecDocument
from trainyard.spec.sections import tasks
from trainyard.spec.sections.changes import Changes, changes_field
from trainyard.spec.sections.environment import EnvironmentSection
from trainyard.spec.sections.hangs import Hangs, Stragglers
from trainyard.spec.sections.log_rules import LogRules
from trainyard.spec.sections.parallel import Parallel
from trainyard.spec.sections.preflight import PreflightMode
from trainyard.spec.sections.resources import Resources
from trainyard.spec.sections.restarts import Restarts
from trainyard.spec.sections.starting import After, Array, Moment
from trainyard.spec.sections.train import Checkpoint, EarlyStopping, Limits, Train
from trainyard.spec.sections.watch import Rules, watch_field
from trainyard.spec.strategies.mesh import Mesh, make_mesh
from trainyard.spec.values.code import GitCode, StoredCode
from trainyard.spec.values.fields import (
    Name,
    Part,
    Priority,
    Slug,
    Tag,
    more_safety,
    more_where,
    what_field,
    where_field,
)


class Spec(Part):
    """Fields that every run has. ``parse_spec`` makes one of its KINDS."""

    name: Name = what_field(..., "Name", "What the run is called; no control or invisible characters, no < and no >.")
    project: Slug = what_field("default", "Project", "Who owns the run.")
    cluster: Slug = where_field("local", "Cluster", "Whose nodes it runs on.")
    tags: Annotated[list[Tag], Field(max_length=50)] = what_field([], "Tags", "Words to find the run by.")
    resources: Resources = Resources()
    priority: Priority = where_field(
        "normal",
        "Priority",
        "Who gets nodes first: 0 to 100, the highest first; high is 75, normal 50, low 25. Runs of a lower priority "
        "save, and shrink or wait, where others need theirs.",
        kind="text",
    )
    not_before: Moment = more_where(
        "",
        "Not before",
        "When it may start at the earliest, such as 2026-11-28T06:00Z; UTC where no zone is named. A time in the past "
        "is now.",
    )
    deadline: Moment = more_where(
        "",
        "Deadline",
        "When it has to have ended, such as 2026-11-28T14:00Z: shown beside its expected end. It changes no order.",
    )
    after: After = After()
    array: Array = Array()
    restarts: Restarts = Restarts()
    limits: Limits = Limits()
    hangs: Hangs = Hangs()
    preflight: PreflightMode = more_safety(
        "auto",
        "Checks of nodes",
        "auto keeps the run off nodes that fail a check; always has its nodes checked anew before each attempt; "
        "never starts it all the same.",
    )
    log_rules: LogRules = more_safety(
        [],
        "Rules of the log",
        "Lines to look for, each as LABEL: PATTERN or LABEL ACTION: PATTERN. The actions are label, notify, "
        "exclude-node, no-retry and metric: LABEL is then a metric, whose number stands in brackets in PATTERN.",
        kind="lines",
    )

    def resolved(self) -> SpecDocument:
        """Return the document with everything filled in, ready for JSON. ``parse_spec`` of it gives this Spec."""
        return SpecDocument(self.model_dump(mode="json"))

    def world_size(self, num_nodes: int | None = None) -> int:
        """Return the number of ranks on ``num_nodes`` nodes (on the least that the spec asks for, where not given)."""
        return (num_nodes or self.resources.least_nodes) * self.resources.processes_per_node

    def at(self, num_nodes: int) -> Self:
        """Return the spec as if it asked for just so many nodes."""
        return self.model_copy(update={"resources": self.resources.model_copy(update={"nodes": num_nodes})})

    @property
    def bundle_sha256(self) -> str | None:
        """The digest of the script's stored code; None for a recipe, for code in Git and for what nobody packed."""
        return None


class RecipeSpec(Spec):
    """A run of a recipe that trains: the base of one class for each."""

    task: tasks.RecipeTask
    parallel: Parallel = Parallel()
    train: Train = Train()
    changes: Changes = changes_field()
    checkpoint: Checkpoint = Checkpoint()
    early_stopping: EarlyStopping = EarlyStopping()
    stragglers: Stragglers = Stragglers()
    watch: Rules = watch_field()

    def mesh(self, num_nodes: int | None = None) -> Mesh:
        """Return how the ranks share the work. Raises ValueError where the degrees do not multiply to the world size,
        which ``parse_spec`` refuses for the nodes that the spec asks for."""
        return make_mesh(self.parallel, self.world_size(num_nodes))


class LanguageModelSpec(RecipeSpec):
    task: tasks.LanguageModelTask


class ImageClassifierSpec(RecipeSpec):
    task: tasks.ImageClassifierTask


class TabularSpec(RecipeSpec):
    task: tasks.TabularTask


class CommunicationSpec(Spec):
    """A measurement of the nodes, which trains nothing."""

    task: tasks.CommunicationTask


class ScriptSpec(Spec):
    """A run of the user's own script, which decides by itself how it trains."""

    task: tasks.ScriptTask
    environment: EnvironmentSection = EnvironmentSection()
    stragglers: Stragglers = Stragglers()
    watch: Rules = watch_field()

    @property
    def bundle_sha256(self) -> str | None:
        code = self.task.code
        return code.sha256 if isinstance(code, StoredCode) else None

    @property
    def git_code(self) -> GitCode | None:
        """The repository that the code is in; None for other code."""
        code = self.task.code
        return code if isinstance(code, GitCode) else None


# By the name of the recipe; a script's own is "script".
KINDS: dict[str, type[Spec]] = {
    "language-model": LanguageModelSpec,
    "image-classifier": ImageClassifierSpec,
    "tabular": TabularSpec,
    "communication-benchmark": CommunicationSpec,
    "script": ScriptSpec,
}
