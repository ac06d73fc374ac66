"""Sources of a launch: an example, a job, a run, a checkpoint. And the code that a script of it needs."""

import logging
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings

from dashboard.pages.launch.space_entries import plain
from runs.inputs.datasets import recipe_of, unresolved
from runs.models import Dataset, Job, Node, Run
from runs.models.indexes import is_none
from runs.rights.access import NotFound, Someone, get_dataset, get_job, get_run, get_sweep, visible_jobs, visible_runs
from trainyard import bundle
from trainyard.contract.base import JsonObject
from trainyard.spec import SpecError, is_own_code, load_spec_file, merge, parse_spec
from trainyard.spec.document import parse_document
from trainyard.spec.sweeps import parse_sweep

FOLDER = settings.BASE_DIR / "examples"
FIRST, FIRST_SWEEP = "hello-gpt", "digits-search"
OWN = "example:"  # before an example's name, in place of a digest: the folder that lies beside it
NUM_LISTED = 8

logger = logging.getLogger(__name__)


class FormSource(NamedTuple):
    """The source that the form was filled from; ``key`` is what the URL says behind ``?from=``."""

    key: str
    label: str
    document: JsonObject
    job: Job | None = None
    run: Run | None = None
    sweep: JsonObject | None = None
    base: JsonObject | None = None  # which the form is compared with, where that is not the document


def find(user: Someone, key: str) -> FormSource:
    """Raises NotFound for what does not exist or may not be seen."""
    kind, _, name = key.partition(":")
    if kind == "job":
        job = get_job(user, name)
        return FormSource(key, f"job {job}", job.spec, job=job)
    if kind == "run":
        run = get_run(user, name)
        if run.is_local:
            raise NotFound(f"Run {run.name} was logged outside of Trainyard: there is no code here to start from.")
        return FormSource(key, f"run {run.name}", unresolved(run.spec), run=run)
    if kind == "change":
        run_id, _, text = name.partition("@")
        start, changes = find(user, f"run:{run_id}"), plain(text)  # as advice on a run has them in its link
        if not isinstance(changes, dict):
            raise NotFound("There is no such change to start from.")
        return start._replace(key=key, document=merge(start.document, changes), base=start.document)
    if kind == "sweep":
        sweep = get_sweep(user, name)
        return FormSource(key, f"sweep {sweep.name}", {**sweep.base_spec, "name": sweep.name}, sweep=sweep.spec)
    if kind == "dataset":
        dataset = get_dataset(user, name)
        return FormSource(key, f"dataset {dataset.name}", _with_dataset(dataset))
    if kind == "checkpoint":
        run_id, _, step = name.partition("@")
        start = find(user, f"run:{run_id}")
        if "recipe" not in start.document.get("task", {}):
            raise NotFound(f"{start.label.capitalize()} is of a script, which goes on in its own run only: restart it.")
        steps = int(start.document["train"]["steps"])  # as many as the run had; behind its last one, as many again
        steps += int(step) if step.isdecimal() and len(step) <= 20 and steps <= int(step) else 0
        document = merge(start.document, {"checkpoint.restore": name, "train.steps": steps})
        label = f"step {step} of {start.label}"
        return start._replace(key=key, label=label, document=document, base=start.document)
    if kind == "measure":
        return FormSource(key, "a benchmark", _benchmark(name))
    if kind == "example" and name in shipped():
        document, of_sweep = shipped()[name]
        return FormSource(key, f"example {name}", examples().get(name, document), sweep=of_sweep)
    raise NotFound(f"There is nothing called {key!r} to start from.")


def _benchmark(where: str) -> JsonObject:
    """Return the spec that measures ``CLUSTER@NODESxPROCESSES``, as the planner asks for it."""
    cluster, _, shape = where.rpartition("@")
    nodes, _, processes = shape.partition("x")
    if not (cluster and nodes.isdecimal() and processes.isdecimal()) or len(shape) > 20:
        raise NotFound(f"There is nothing called {where!r} to measure.")
    is_alone = int(nodes) * int(processes) == 1
    return {
        "name": f"rates-{shape}",
        "cluster": cluster,
        "resources": {"nodes": int(nodes), "processes_per_node": int(processes)},
        "task": {"recipe": "communication-benchmark", **({"operations": ["compute"]} if is_alone else {})},
    }


def _with_dataset(dataset: Dataset) -> JsonObject:
    """An example of the recipe that reads such data, with this in place of its own, on no more nodes than there are."""
    recipe = recipe_of(dataset.source, dataset.options)
    found = (one for one in examples().values() if one["task"].get("recipe") == recipe)
    document: JsonObject = next(found, {"task": {"recipe": recipe}})
    data = {**dataset.options, "dataset": dataset.name, "source": dataset.source}
    asked = document.get("resources", {}).get("nodes", 1)
    least = asked["min"] if isinstance(asked, dict) else asked
    nodes = min(least, max(1, Node.objects.registered().filter(cluster=dataset.cluster).count()))
    document = {**document, "task": {**document["task"], "data": data}}
    names = {"name": dataset.name, "project": dataset.project.name, "cluster": dataset.cluster.name}
    return merge(document, {**names, "resources.nodes": nodes})


def next_name(run: Run) -> str:
    """The run's name with the next number that is free in its project: hello-gpt-2."""
    stem, _, number = run.name.rpartition("-")
    same = Run.objects.filter(project=run.project_id)
    if not number.isdecimal() or not same.filter(name=stem).exists():
        stem = run.name
    names = [f"{stem[:110]}-{number}" for number in range(2, 1_000)]  # a name has 120 characters
    taken = set(same.filter(name__in=names).values_list("name", flat=True))
    return next((name for name in names if name not in taken), names[-1])


def read_yaml(text: str) -> tuple[JsonObject, JsonObject | None]:
    """Return the spec that is written there, and the sweep over it where it is one. Raises SpecError."""
    return _read(parse_document(text, "the YAML"))


def offered(user: Someone) -> dict[str, list[tuple[str, str]]]:
    """Keys and labels of what to start from: examples, jobs, the last runs."""
    started_here = visible_runs(user).filter(is_none("local_id"))
    jobs = visible_jobs(user).newest().values_list("pk", "name", "version")[:NUM_LISTED]
    return {
        "Sweeps": [(f"example:{name}", name) for name, (_, sweep) in shipped().items() if sweep],
        "Examples": [(f"example:{name}", name) for name in examples()],
        "Jobs": [(f"job:{pk}", f"{name} v{version}") for pk, name, version in jobs],
        "Runs": [(f"run:{pk}", name) for pk, name in started_here.values_list("pk", "name")[:NUM_LISTED]],
    }


def examples() -> dict[str, JsonObject]:
    """The shipped specs by name. A script's code is named as the example's own."""
    specs = {name: spec for name, (spec, sweep) in shipped().items() if sweep is None}
    own = {name: merge(spec, {"task.code": OWN + name}) for name, spec in specs.items() if is_own_code(spec["task"])}
    return specs | own


@cache
def shipped() -> dict[str, tuple[JsonObject, JsonObject | None]]:
    """The shipped specs by name, the first one first, and with each the sweep over it where it is one."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml"), key=lambda path: (path.stem != FIRST, path.stem)):
        try:
            spec, sweep = _read(load_spec_file(path))
        except (SpecError, OSError) as error:  # one that somebody broke takes no other, and not the page, with it
            logger.error("the example %s is left out: %s", path, error)
        else:
            found[spec["name"]] = spec, sweep
    return found


def _read(document: Any) -> tuple[JsonObject, JsonObject | None]:
    if not (isinstance(document, dict) and "sweep" in document):  # a sweep is started by its own command
        return parse_spec(document).resolved(), None
    sweep = parse_sweep(document["sweep"]).as_document()
    base = parse_spec(sweep["base"]).resolved()
    return {**base, "name": sweep["name"]}, {**sweep, "base": base}


@cache
def own_code(name: str) -> tuple[bytes, str, list[str]]:
    """The packed folder of the example. Raises NotFound where no example of that name brings code."""
    spec, sweep = shipped().get(name, (None, None))
    if spec and not sweep and is_own_code(spec["task"]):
        return bundle.pack(FOLDER / spec["task"]["code"])
    raise NotFound(f"There is no example {name!r} that brings code.")
