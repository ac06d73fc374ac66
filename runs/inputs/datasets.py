"""Datasets of a project in specs: which recipe reads one, which fields it fills in, who uses it."""

from collections.abc import Iterator, Mapping

from django.db.models import QuerySet

from runs.models import Cluster, Dataset, Project, Run
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.formats.words import listed
from trainyard.spec import FieldInfo, Problem, Spec, SpecError, fields_of, merge, parse_spec
from trainyard.spec.sections.data import SOURCE

RECIPES = ("language-model", "image-classifier", "tabular")
READERS = {"text": "language-model", "images": "image-classifier", "table": "tabular"}  # of what a node found
HERE = "task.data."
NAME = f"{HERE}dataset"
PLACE = ("source", "location", "digest")  # which only the dataset defines


DatasetOptions = Mapping[str, str | int]  # by the name of a field of ``task.data``


def recipe_of(source: str, options: DatasetOptions) -> str:
    """Return the recipe that reads such a dataset. Arrays are images, unless a column of them is to be told."""
    recipes = recipes_with(source)
    return "tabular" if "target" in options and "tabular" in recipes else recipes[0]


def recipes_with(source: str) -> tuple[str, ...]:
    return tuple(recipe for recipe in RECIPES if source in fields_of(recipe)[SOURCE].choices)


def options_of(source: str) -> dict[str, FieldInfo]:
    """Return by name the fields of ``task.data`` that only sources of this kind have."""
    return {
        path.removeprefix(HERE): info
        for recipe in recipes_with(source)
        for path, info in fields_of(recipe).items()
        if info.needs is not None and info.needs.path == SOURCE and source in info.needs.values
        if path.removeprefix(HERE) not in PLACE
    }


def data_of(dataset: Dataset) -> JsonObject:
    """Return the whole ``task.data`` with which a node looks at it: any digest will do there. Of a table for which
    nobody named a target nothing is said of one."""
    fields = fields_of(recipe_of(dataset.source, dataset.options))
    defaults = {path.removeprefix(HERE): info.default for path, info in fields.items() if path.startswith(HERE)}
    defaults.pop("target", None)
    return {**defaults, **dataset.options, "source": dataset.source, "location": dataset.location}


def named_in(document: JsonObject) -> str:
    """Return the dataset that a spec names; empty where it names none."""
    task = document.get("task")
    data = task.get("data") if isinstance(task, Mapping) else None
    name = data.get("dataset") if isinstance(data, Mapping) else None
    return name if isinstance(name, str) else ""


def resolve(spec: Spec, project: Project, cluster: Cluster) -> Spec:
    """Return the spec with its dataset's fields filled in, unchanged where it names none. Raises SpecError."""
    document = spec.resolved()
    name = named_in(document)
    if not name:
        return spec
    dataset = Dataset.objects.filter(project=project, name=name).select_related("cluster").first()
    if dataset is None:
        raise SpecError([Problem(NAME, f"there is no dataset {name!r} in project {project.name}")])
    if problems := [*_refusals(dataset, document["task"]["recipe"], cluster), *_contradictions(dataset, document)]:
        raise SpecError(problems)
    filled = parse_spec(merge(document, {HERE + field: value for field, value in _filled(dataset, document).items()}))
    if problem := _target_problem(dataset, filled.resolved()["task"]["data"].get("target")):
        raise SpecError([problem])
    return filled


def unresolved(document: SpecDocument) -> SpecDocument:
    """Return a spec as it was before ``resolve``, so that it takes the dataset as it is now."""
    if not named_in(document):
        return document
    data = {field: value for field, value in document["task"]["data"].items() if field not in PLACE}
    return SpecDocument({**document, "task": {**document["task"], "data": data}})


def runs_with(runs: QuerySet[Run], dataset: Dataset) -> QuerySet[Run]:
    return runs.filter(project=dataset.project_id, dataset=dataset.name)


def _refusals(dataset: Dataset, recipe: str, cluster: Cluster) -> Iterator[Problem]:
    able = _readers(dataset)
    if recipe not in able:
        what = f"{dataset.source} ({kind})" if (kind := dataset.facts.get("kind")) else dataset.source
        yield Problem(NAME, f"{dataset.name!r} is {what}, which {recipe} does not read; {' or '.join(able)} does")
    if dataset.cluster_id != cluster.pk:
        where = f"is for nodes of cluster {dataset.cluster.name}; this runs on {cluster.name}"
        yield Problem(NAME, f"{dataset.name!r} {where}")
    if dataset.state == Dataset.State.FAILED:
        yield Problem(NAME, f"{dataset.name!r} cannot be used: {dataset.problem} Then have it checked again")


def _readers(dataset: Dataset) -> tuple[str, ...]:
    """Arrays may be images or rows of numbers; a node's inspection decides."""
    reader = READERS.get(dataset.facts.get("kind", ""))
    return (reader,) if reader else recipes_with(dataset.source)


def _contradictions(dataset: Dataset, document: SpecDocument) -> Iterator[Problem]:
    """Yield a problem for each field beside the dataset's name that contradicts the dataset."""
    data, known = document["task"]["data"], dataset.fields()
    for field in PLACE:
        info = fields_of(document["task"]["recipe"])[HERE + field]
        if data[field] not in (info.default, known[field]):
            shown = known[field] or "not known yet"
            words = f"is not what dataset {dataset.name!r} says, which is {shown}; leave it out"
            yield Problem(info.path, f"{data[field]!r} {words}")


def _filled(dataset: Dataset, document: SpecDocument) -> dict[str, str | int]:
    """The dataset's place, and those of its options for which the spec itself does not say otherwise."""
    fields, data = fields_of(document["task"]["recipe"]), document["task"]["data"]
    options = {
        name: value
        for name, value in dataset.options.items()
        if HERE + name in fields and data[name] == fields[HERE + name].default
    }
    digest = dataset.digest if dataset.state == Dataset.State.READY else data["digest"]
    return {**options, "source": dataset.source, "location": dataset.location, "digest": digest}


def _target_problem(dataset: Dataset, target: str | None) -> Problem | None:
    columns = [str(column.get("name")) for column in dataset.facts.get("columns") or []]
    if dataset.state != Dataset.State.READY or not columns or target is None or target in columns:
        return None
    if dataset.facts.get("num_columns", len(columns)) > len(columns):  # the node sent only some of them
        return None
    known = listed(columns, at_most=20)
    return Problem(f"{HERE}target", f"dataset {dataset.name!r} has no column {target!r}; it has {known}")
