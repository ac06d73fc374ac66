"""Rules across fields: what each field accepts alone and the whole cannot have. Each names its numbers."""

import math
from collections.abc import Iterator

from trainyard.spec.document import value_at_path
from trainyard.spec.form import fields_of
from trainyard.spec.models import RecipeSpec, Spec
from trainyard.spec.problems import Problem, show
from trainyard.spec.sections.data import (
    DIGITS_SIZE,
    LOCATED,
    QUANTITIES,
    SOURCE,
    ImageData,
    TableData,
    location_problem,
)
from trainyard.spec.sections.environment import EnvironmentSection
from trainyard.spec.sections.tasks import CommunicationTask, GPTModel, ImageModel, ScriptTask
from trainyard.spec.strategies import STRATEGIES
from trainyard.spec.strategies.mesh import inner_degrees, inner_words
from trainyard.spec.strategies.products import product_problems
from trainyard.spec.strategies.strategy import some
from trainyard.spec.strategies.tensor import is_resnet
from trainyard.spec.values.fields import LONGEST_NAME
from trainyard.spec.values.references import OF_RANKS, names_in, read_reference


def broken_rules(spec: Spec) -> Iterator[Problem]:
    """Yield what is wrong across the fields of a spec that asks for one number of nodes."""
    yield from _secret_problems(spec)
    yield from _share_problems(spec)
    yield from _start_problems(spec)
    if isinstance(spec, RecipeSpec):
        yield from _training_problems(spec)
    elif isinstance(task := getattr(spec, "task", None), CommunicationTask):
        yield from _benchmark_problems(spec, task)
    elif isinstance(task, ScriptTask):
        yield from _program_problems(task)
        yield from _argument_problems(task)
        yield from _environment_problems(spec, task)
        if task.notebook:
            yield from _notebook_problems(spec)


def _secret_problems(spec: Spec) -> Iterator[Problem]:
    task = getattr(spec, "task", None)
    for index, text in enumerate(getattr(task, "secrets", [])):
        variable = read_reference(text).variable
        if variable in getattr(task, "environment", {}):
            yield Problem(f"task.secrets.{index}", f"{show(text)} sets {variable}, which task.environment sets, too")


def _share_problems(spec: Spec) -> Iterator[Problem]:
    resources = spec.resources
    if resources.slot_shares > 1 and (resources.most_nodes, resources.processes_per_node) != (1, 1):
        ranks = f"{resources.most_nodes} x {resources.processes_per_node}"
        words = f"{resources.slots_per_process:g} is for a run of one rank, and this one has {ranks}; accepted here: 1"
        yield Problem("resources.slots_per_process", words)


def _start_problems(spec: Spec) -> Iterator[Problem]:
    array, none = spec.array, "" if spec.after.runs else "after.runs names none"
    size = "" if array.size else "array.size is 0"
    for path, value, nothing, why in (
        ("after.on", spec.after.on, "ok", none),
        ("array.at_once", array.at_once, 0, size),
        ("array.index", array.index, -1, size),
    ):
        if why and value != nothing:
            yield Problem(path, f"{value} would be ignored: {why}; accepted here: {nothing}, or leave it out")
    if spec.deadline and spec.deadline <= spec.not_before:
        yield Problem("deadline", f"{spec.deadline} is not later than not_before, which is {spec.not_before}")
    if array.index >= array.size > 0:
        yield Problem("array.index", f"{array.index} is none of the array's, which are 0 to {array.size - 1}")
    if array.launches_many and (length := len(f"{spec.name}-{array.size - 1}")) > LONGEST_NAME:
        yield Problem("name", f"has {length} characters with the array's last number; at most {LONGEST_NAME} fit")


def _notebook_problems(spec: Spec) -> Iterator[Problem]:
    """One person works in one process."""
    resources = spec.resources
    if (resources.most_nodes, resources.processes_per_node) != (1, 1):
        ranks = f"{resources.most_nodes} x {resources.processes_per_node}"
        words = f"{ranks} ranks are no notebook's, which has one; accepted here: 1"
        yield Problem("resources.nodes" if resources.most_nodes > 1 else "resources.processes_per_node", words)
    section = getattr(spec, "environment", None)
    if section is not None and section.container.is_asked:
        words = "a notebook runs in no container; accepted here: requirements, pyproject, lock, conda"
        yield Problem("environment.container", words)


def divides(spec: RecipeSpec) -> bool:
    """Return whether the degrees divide the world size, and the data degree the global batch: cheap to find out."""
    return not any(True for _ in _degree_problems(spec)) and not any(True for _ in _batch_problems(spec))


def _training_problems(spec: RecipeSpec) -> Iterator[Problem]:
    yield from _idle_problems(spec)
    yield from _data_problems(spec)
    yield from _model_problems(spec)
    for strategy in STRATEGIES:
        yield from strategy.problems(spec)
    yield from _train_problems(spec)
    degrees = list(_degree_problems(spec))
    yield from degrees
    if not degrees:
        yield from product_problems(spec)
        yield from _batch_problems(spec)
        for strategy in STRATEGIES:
            yield from strategy.product_problems(spec)


def _program_problems(task: ScriptTask) -> Iterator[Problem]:
    if not task.programs:
        yield Problem("task.script", "is required: a script, or in its place a task.module or a task.command")
    elif len(task.programs) > 1:
        first, *others = task.programs
        shown = " and ".join(f"task.{name} {show(getattr(task, name))}" for name in others)
        words = f"{show(getattr(task, first))} stands beside {shown}; exactly one of them is accepted"
        yield Problem(f"task.{first}", words)
    if task.notebook and task.arguments:
        yield Problem("task.arguments", f"{show(task.arguments)} would be ignored: a notebook has none")


def _argument_problems(task: ScriptTask) -> Iterator[Problem]:
    """A variable that no rank has would reach the script as nothing, or as it stands: either is a surprise."""
    known = {*OF_RANKS, *task.environment}
    words = [(f"task.command.{index}", word) for index, word in enumerate(task.command)]
    words += [(f"task.arguments.{index}", word) for index, word in enumerate(task.arguments)]
    for path, argument in words:
        for name in names_in(argument):
            if name not in known:
                yield Problem(
                    path,
                    f"{show(argument)} names ${{{name}}}, which no rank has; accepted: {', '.join(OF_RANKS)} and what "
                    f"task.environment sets. Write $${{{name}}} for these very characters",
                )


def _environment_problems(spec: Spec, task: ScriptTask) -> Iterator[Problem]:
    if task.distributed and "torchrun" not in task.launch:
        words = f"true gives a single process torchrun's variables, and task.launch {show(task.launch)} gives none"
        yield Problem("task.distributed", words)
    section = getattr(spec, "environment", None)
    if "spark" in task.launch and len(task.launch) > 1:
        yield Problem("task.launch", f"{show(task.launch)} has more than spark, with which one rank runs the script")
    if "spark" in task.launch and section is not None and section.container.is_asked:
        words = "ranks in a container are no Spark's; accepted here: requirements, pyproject, lock, conda"
        yield Problem("environment.container", words)
    if "TF_CONFIG" in task.environment and ("tensorflow" in task.launch or spec.world_size() > 1):
        given = show(task.environment["TF_CONFIG"])
        words = f"TF_CONFIG {given} is one place among the workers for all ranks: leave it out, and task.launch"
        yield Problem("task.environment", f"{words} tensorflow gives each its own")
    if not isinstance(section, EnvironmentSection):
        return
    yield from section.problems()
    if task.python and section.is_asked and section.kind != "container":
        yield Problem(
            "task.python",
            f"{show(task.python)} stands beside environment, whose interpreter runs the ranks; leave one of them out",
        )


def _benchmark_problems(spec: Spec, task: CommunicationTask) -> Iterator[Problem]:
    if task.smallest_bytes > task.largest_bytes:
        words = f"{task.smallest_bytes} is more than task.largest_bytes, which is {task.largest_bytes}"
        yield Problem("task.smallest_bytes", words)
    if spec.world_size() == 1 and set(task.operations) != {"compute"}:
        yield Problem("resources.nodes", "1 rank has nobody to talk to: take 2 ranks or more, or compute alone")


def _idle_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Yield problems of settings that nothing would read: silence about them would be a promise that is not kept."""
    values = spec.resolved()
    for info in fields_of(spec.task.recipe).values():
        if info.needs is None:
            continue
        if info.needs.path == SOURCE and value_at_path(values, "task.data.dataset")[1]:
            continue  # the dataset says what its source is, and the server what contradicts it
        value, other = value_at_path(values, info.path)[1], value_at_path(values, info.needs.path)[1]
        if value != info.default and not info.needs.is_met(other):
            words = f"and {info.needs.path} is {show(other)}; accepted here: {show(info.default)}, or leave it out"
            yield Problem(info.path, f"{show(value)} would be ignored: it goes with {info.needs}, {words}")


def _data_problems(spec: RecipeSpec) -> Iterator[Problem]:
    data = spec.resolved()["task"]["data"]
    if data["source"] in LOCATED and not data["location"] and not data["dataset"]:
        message = f"the source {data['source']} needs a file, folder or URL to read from, or a dataset of the project"
        yield Problem("task.data.location", message)
    elif data["location"] and (words := location_problem(data["location"])):
        yield Problem("task.data.location", words)


def _model_problems(spec: RecipeSpec) -> Iterator[Problem]:
    model = spec.task.model
    if is_resnet(model):
        if spec.train.optimizer == "muon":
            words = "muon is for matrices, and the kernels of a resnet have four dimensions; accepted here: adamw, sgd"
            yield Problem("train.optimizer", words)
    elif isinstance(model, GPTModel | ImageModel):
        yield from _head_problems(model, is_turned=isinstance(model, GPTModel))
        yield from _patch_problems(spec)
    if isinstance(model, GPTModel) and model.base_width and spec.train.optimizer == "muon":
        yield Problem("task.model.base_width", "carries the rates of adamw and sgd to another width, not those of muon")


def _head_problems(model: GPTModel | ImageModel, *, is_turned: bool) -> Iterator[Problem]:
    if model.width % model.heads:
        yield Problem("task.model.heads", f"{model.heads} heads do not divide the width {model.width} into equal parts")
    elif is_turned and model.width // model.heads % 2:
        yield Problem(
            "task.model.heads",
            f"width {model.width} / {model.heads} heads = {model.width // model.heads} is odd; each head must be even",
        )
    shared = getattr(model, "kv_heads", "auto")
    if shared != "auto" and model.heads % int(shared):
        yield Problem("task.model.kv_heads", f"{shared} does not divide the {model.heads} heads of task.model.heads")


def _patch_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Yield problems of patches, where the size of the images is known beforehand: of digits, and of a folder's, which
    are scaled."""
    model, data = spec.task.model, getattr(spec.task, "data", None)
    if not isinstance(model, ImageModel) or not isinstance(data, ImageData) or data.dataset:
        return
    size = {"digits": DIGITS_SIZE, "images": data.image_size}.get(data.source)
    if size and size % model.patch:
        yield Problem(
            "task.model.patch",
            f"{model.patch} does not divide the {size} pixels of an image's side; "
            f"accepted: {some([one for one in range(1, size + 1) if size % one == 0])}",
        )


def _train_problems(spec: RecipeSpec) -> Iterator[Problem]:
    train = spec.train
    if train.warmup_steps > train.steps:
        yield Problem("train.warmup_steps", f"{train.warmup_steps} is more than the {train.steps} steps of the run")
    if spec.early_stopping.patience and not train.validate_every_steps:
        yield Problem(
            "early_stopping.patience",
            f"{spec.early_stopping.patience} counts validations, and with train.validate_every_steps 0 there is none "
            "before the last step; accepted here: 0, or validate every so many steps",
        )
    yield from _metric_problems(spec)
    yield from _change_problems(spec)
    _, _, step = spec.checkpoint.restore.partition("@")
    if step and int(step) >= train.steps:
        words = f"step {int(step)} leaves nothing to train: train.steps {train.steps} counts from the very first step"
        yield Problem("checkpoint.restore", words)


def _change_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Yield problems of changes in mid-training: each must be a way to go on from the same state."""
    before = 0
    for place, change in enumerate(spec.changes):
        path = f"changes.{place}"
        if not change.values:
            yield Problem(path, "changes nothing: name a learning_rate, weight_decay, batch_size or gradient_clip")
        if change.behind <= before:
            yield Problem(f"{path}.behind", f"{change.behind} does not come after step {before}, of the one before it")
        if change.behind >= spec.train.steps:
            yield Problem(f"{path}.behind", f"{change.behind} leaves no step: train.steps is {spec.train.steps}")
        before = change.behind
        if change.batch_size is not None:
            yield from _changed_batch_problems(spec, f"{path}.batch_size", change.batch_size)


def _changed_batch_problems(spec: RecipeSpec, path: str, batch_size: int) -> Iterator[Problem]:
    parallel = spec.parallel
    if parallel.balance != "none":
        words = f"{batch_size} does not go with parallel.balance {parallel.balance}: accepted with it: none"
        yield Problem(path, words)
    elif spec.train.find_batch_size != "none":
        yield Problem(path, f"{batch_size} does not go with train.find_batch_size {spec.train.find_batch_size}")
    elif not any(True for _ in _degree_problems(spec)) and spec.mesh().degree("pipeline") > 1:
        yield Problem(path, f"{batch_size} does not go with a pipeline, whose microbatches are of one size")
    else:
        changed = spec.model_copy(update={"train": spec.train.model_copy(update={"batch_size": batch_size})})
        if not any(True for _ in _degree_problems(spec)):
            yield from (problem._replace(path=path) for problem in _batch_problems(changed))


def _metric_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """Of a table of one's own only its target says whether it has classes: what can be known without it is refused."""
    measured = {"language-model": ["val/loss"], "image-classifier": ["val/loss", "val/accuracy"]}
    accepted, where = measured.get(spec.task.recipe), spec.task.recipe
    data = getattr(spec.task, "data", None)
    if isinstance(data, TableData) and data.source not in LOCATED and not data.dataset:
        accepted = ["val/loss", "val/r2" if data.source in QUANTITIES else "val/accuracy"]
        where = f"{where} on {data.source}"
    if accepted is not None and spec.early_stopping.metric not in accepted:
        yield Problem(
            "early_stopping.metric",
            f"{spec.early_stopping.metric} is not measured by the recipe {where}; accepted here: {', '.join(accepted)}",
        )


def _degree_problems(spec: RecipeSpec) -> Iterator[Problem]:
    parallel, resources, world = spec.parallel, spec.resources, spec.world_size()
    degrees = inner_degrees(parallel)
    words, inner = inner_words(degrees), math.prod(degrees.values())
    ranks = f"{resources.nodes} nodes x {resources.processes_per_node} processes = {world}"
    if parallel.data == "auto":
        if world % inner:
            yield Problem("parallel", f"{words} = {inner} does not divide the world size: {ranks}")
    elif int(parallel.data) * inner != world:
        accepted = f"auto or {world // inner}" if world % inner == 0 else "none with these degrees"
        yield Problem(
            "parallel.data",
            f"{parallel.data} x {words} = {int(parallel.data) * inner} is not the world size: {ranks}; "
            f"accepted: {accepted}",
        )


def _batch_problems(spec: RecipeSpec) -> Iterator[Problem]:
    train = spec.train
    copies = spec.mesh().num_batch_parts
    pieces = train.accumulate * copies
    if train.batch_size % pieces:
        below = train.batch_size // pieces * pieces
        yield Problem(
            "train.batch_size",
            f"{train.batch_size} does not divide by accumulate {train.accumulate} x data degree {copies} = {pieces}; "
            f"the nearest that do: {f'{below} or ' if below else ''}{below + pieces}",
        )
