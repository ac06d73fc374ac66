"""Datasets: named by people, looked at by nodes. The server itself opens nothing of what they name."""

from pathlib import PurePosixPath
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from runs.actions.jobs import taking_name
from runs.inputs.datasets import DatasetOptions, options_of, recipe_of, runs_with
from runs.models import Cluster, Dataset, Node, Project, Run, User
from runs.rights.access import Permission, require, require_use
from runs.serving import broadcast
from runs.values.refused import Refused
from runs.values.status import LIVE
from trainyard.contract.inspections import DatasetFacts
from trainyard.spec import SpecError, parse_spec
from trainyard.spec.sections.data import LOCATED

MAX_PROBLEM = 2_000
State = Dataset.State


def create_dataset(
    *,
    actor: User,
    project: Project,
    cluster: Cluster,
    name: str,
    source: str,
    location: str,
    options: DatasetOptions | None = None,
) -> Dataset:
    """Name data, and have a node of the cluster look at it. Raises ValidationError by field, Refused for a taken name.

    ``options`` are the fields of ``task.data`` that such a source has: of a table the target, of JSONL the text field.
    """
    require(actor, project, Permission.DATASETS_EDIT)
    require_use(project, cluster)
    given = {field: value for field, value in (options or {}).items() if value not in (None, "")}
    dataset = Dataset(project=project, cluster=cluster, name=name, source=source, options=given, created_by=actor)
    dataset.location = location.strip()
    dataset.clean_fields(exclude={one.name for one in Dataset._meta.fields} - {"name"})
    _check_data(dataset)
    with taking_name(f"There is already a dataset named {name} in project {project.name}."):
        dataset.save()
        transaction.on_commit(broadcast.datasets_changed)  # the next tick asks a node
    return dataset


def check_dataset(*, actor: User, dataset: Dataset) -> Dataset:
    """Have a node look again. What is known stays until it has; asking while one looks changes nothing."""
    require(actor, dataset.project, Permission.DATASETS_EDIT)
    require_use(dataset.project, dataset.cluster)
    if not dataset.is_open:
        with transaction.atomic():
            dataset.state, dataset.asked_at, dataset.problem = State.WAITING, None, ""
            dataset.save(update_fields=["state", "asked_at", "problem"])
            transaction.on_commit(broadcast.datasets_changed)
    return dataset


def delete_dataset(*, actor: User, dataset: Dataset) -> None:
    """Forget the name; the files stay where they are, and runs that ended keep their spec."""
    require(actor, dataset.project, Permission.DATASETS_EDIT)
    with transaction.atomic():
        if run := runs_with(Run.objects.all(), dataset).filter(status__in=LIVE).first():
            raise Refused("in-use", f"Run {run.name} is {run.status} and uses dataset {dataset.name}. Stop it first.")
        dataset.delete()
        transaction.on_commit(broadcast.datasets_changed)


def answer_dataset(*, node: Node, dataset_id: str, question: str, facts: DatasetFacts | None, problem: str) -> bool:
    """Keep what the node found: facts, or the problem that kept it from finding any.

    False when nobody asked this node that question, or it has been answered, or another node was asked since.
    """
    dataset = Dataset.objects.filter(pk=dataset_id, state=State.CHECKING, checked_by=node).first()
    if dataset is None or dataset.question != question:
        return False
    asked = Dataset.objects.filter(pk=dataset_id, state=State.CHECKING, checked_by=node, asked_at=dataset.asked_at)
    state, words = (State.FAILED, _sentence(problem)) if facts is None else (State.READY, "")
    known = DatasetFacts() if facts is None else facts
    found = {"facts": known, "size_bytes": known.get("size_bytes"), "digest": known.get("digest") or ""}
    with transaction.atomic():
        is_taken = bool(asked.update(**found, state=state, problem=words, checked_at=timezone.now()))
        if is_taken:
            transaction.on_commit(broadcast.datasets_changed)
    return is_taken


def _sentence(problem: str) -> str:
    """A node's message about a spec's fields, worded for a page with the data's fields only."""
    words = problem.replace("task.data.", "").strip()[:MAX_PROBLEM]
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '?', '!')) else '.'}"


def _check_data(dataset: Dataset) -> None:
    """Check the data as a run's spec would be checked. Raises ValidationError."""
    source, location = dataset.source, dataset.location
    if source not in LOCATED:
        raise ValidationError({"source": [f"must be one of {', '.join(LOCATED)}, not {source!r}."]})
    problems: dict[str, list[str]] = {}
    if sentence := _location_problem(location):
        problems["location"] = [sentence]
    known = options_of(source)
    for name in dataset.options.keys() - known:
        of_this = f"it has {', '.join(known)}" if known else "it has none"
        problems[name] = [f"is no option of data whose source is {source}; {of_this}."]
    data = {name: dataset.options[name] for name in dataset.options.keys() & known}
    if not problems:
        task = {"recipe": recipe_of(source, data), "data": {**data, "source": source, "location": location}}
        try:
            parse_spec({"name": "data", "task": task})
        except SpecError as error:
            problems = {one.path.removeprefix("task.data."): [f"{one.message}."] for one in error.errors}
    if problems:
        raise ValidationError(problems)


def _location_problem(location: str) -> str:
    if not location:
        return "is needed: an absolute path on the nodes, or a URL."
    if "://" not in location:
        if not PurePosixPath(location).is_absolute():
            return f"must be an absolute path on the nodes, such as /data/rows.csv, or a URL, not {location!r}."
        return ""
    try:
        holds_secret = any(map(_holds_secret, location.split("::")))  # an archive may itself be a URL
    except ValueError:
        return "is no URL that can be read."
    return "must hold no password: whoever sees the project would read it." if holds_secret else ""


def _holds_secret(url: str) -> bool:
    """Raises ValueError for what is no URL."""
    parts = urlsplit(url)
    return bool(parts.password or (parts.username and parts.scheme in ("http", "https")))
