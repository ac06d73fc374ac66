"""Data: what projects train on by name, what nodes found in it, and who used it."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.pages.shared import drawn
from dashboard.pages.shared.badges import Badge
from dashboard.pages.shared.frame import answer, page, person, show
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.run_rows import rows
from dashboard.pages.shared.sheet import Kind, Sheet
from runs import actions
from runs.inputs.datasets import options_of, recipe_of, runs_with
from runs.models import Dataset, Run
from runs.rights import access
from runs.rights.access.operations import lists, thing
from trainyard.contract.inspections import ColumnFacts, DatasetFacts
from trainyard.formats.figures import count, number, size
from trainyard.formats.words import counted
from trainyard.grouping import grouped

BADGES = {
    Dataset.State.WAITING: Badge("waiting", "grey", "status-queued"),
    Dataset.State.CHECKING: Badge("checking", "blue", "status-starting", "pulsing"),
    Dataset.State.READY: Badge("ready", "green", "status-succeeded", "solid"),
    Dataset.State.FAILED: Badge("failed", "red", "status-failed", "solid"),
}
SOURCES = {
    "text": "Text files",
    "jsonl": "JSON lines",
    "npz": "NumPy arrays",
    "csv": "CSV table",
    "parquet": "Parquet table",
    "images": "Folder of images",
}
MAX_COLUMNS = 100
MAX_CELLS = 20  # of a row that is shown whole
MAX_CLASSES = 30
NUM_RUNS = 10
USED = "spec__task__data__dataset"
ADD_COMMAND = "trainyard dataset add trees --source csv --location /data/trees.csv --target kind"


class Line(NamedTuple):
    dataset: Dataset
    num_runs: int


NONE_USED = '<span class="muted">no run</span>'
NOT_YET = '<span class="muted">not yet</span>'
KINDS: dict[str, Kind[Line]] = {
    "name": Kind(
        "Name", 180, lambda one: drawn.opener("dataset", str(one.dataset.pk), one.dataset.name), "name", phone=""
    ),
    "location": Kind("Where", 200, lambda line: drawn.clipped(line.dataset.location), phone="wide"),
    "kind": Kind("Kind", 120, lambda line: SOURCES.get(line.dataset.source, line.dataset.source), sort="source"),
    "size": Kind("Size", 80, lambda line: size(line.dataset.size_bytes), sort="size_bytes", is_number=True),
    "rows": Kind("Rows", 80, lambda line: count(line.dataset.facts.get("num_rows")), is_number=True),
    "state": Kind("State", 110, lambda line: drawn.status(badge_of(line.dataset)), sort="state", phone="end"),
    "problem": Kind("Problem", 140, lambda line: drawn.clipped(line.dataset.problem or "–"), phone=""),
    "used": Kind(
        "Used by", 90, lambda line: counted(line.num_runs, "run") if line.num_runs else NONE_USED, "", True, ""
    ),
    "project": Kind("Project", 120, lambda line: drawn.clipped(line.dataset.project.name), sort="project__name"),
    "checked": Kind("Checked", 100, lambda line: _checked(line.dataset), sort="checked_at"),
}


def _checked(dataset: Dataset) -> str:
    return f'<span class="muted">{drawn.age(dataset.checked_at)}</span>' if dataset.checked_at else NOT_YET


@page(get=lists(access.Permission.DATASETS_READ))
def table(request: HttpRequest) -> HttpResponse:
    sheet = Sheet(request, "Data", "dataset", KINDS, Sort("name", False))
    found = access.visible_datasets(request.user)
    if sheet.words:
        found = found.filter(name__icontains=sheet.words)
    keys = found.order_by(*sheet.order, "pk").values_list("pk", flat=True)
    may_add = access.projects_with(request.user, access.Permission.DATASETS_EDIT).exists()
    context = {"title": "Data", "news": "datasets", "may_add": may_add, "command": ADD_COMMAND}
    return sheet.show("datasets/table.html", keys, partial(_rows, request.user), context)


def _rows(user: access.Someone, keys: Sequence[str]) -> list[tuple[GridRow, Line]]:
    known = Dataset.objects.select_related("project").in_bulk(keys)
    found = [known[key] for key in keys if key in known]
    uses = _uses(user, found)
    return [(GridRow(str(one.pk), one.name, ()), Line(one, uses.get((one.project_id, one.name), 0))) for one in found]


@page(get=thing(access.Permission.DATASETS_READ))
def dataset(request: HttpRequest, dataset_id: str) -> HttpResponse:
    chosen = access.get_dataset(request, dataset_id)
    runs = runs_with(access.visible_runs(request.user), chosen).order_by("-created_at", "-pk")
    known = options_of(chosen.source)
    context = {
        "dataset": chosen,
        "badge": badge_of(chosen),
        "source": SOURCES.get(chosen.source, chosen.source),
        "recipe": recipe_of(chosen.source, chosen.options),
        "preview": preview(chosen),
        "options": [(known[name].label if name in known else name, value) for name, value in chosen.options.items()],
        "rows": rows(list(runs[:NUM_RUNS])),
        "num_runs": runs.count(),
        "jobs": access.visible_jobs(request.user)
        .newest()
        .filter(project=chosen.project_id, **{USED: chosen.name})[:NUM_RUNS],
        "may_act": access.can(request.user, chosen.project, access.Permission.DATASETS_EDIT),
        "command": f"trainyard dataset show {chosen.name}",
    }
    return show(request, "datasets/dataset.html", context, fragments={"dataset": "datasets/_dataset.html"})


@page(post=thing(access.Permission.DATASETS_EDIT))
def check(request: HttpRequest, dataset_id: str) -> HttpResponse:
    chosen = actions.check_dataset(actor=person(request), dataset=access.get_dataset(request, dataset_id))
    to = "" if request.headers.get("X-Requested-With") == "fetch" else reverse("dataset", args=(chosen.pk,))
    return answer(request, f"A node will look at {chosen.name} again.", to=to, home="datasets")


@page(post=thing(access.Permission.DATASETS_EDIT))
def delete(request: HttpRequest, dataset_id: str) -> HttpResponse:
    chosen = access.get_dataset(request, dataset_id)
    actions.delete_dataset(actor=person(request), dataset=chosen)
    return answer(request, f"Deleted dataset {chosen.name}.", to=reverse("datasets"))


def _uses(user: access.Someone, datasets: list[Dataset]) -> dict[tuple[Any, Any], int]:
    """Return how many runs name each dataset, by its project and name, in one query."""
    names = {one.name for one in datasets}
    found = Run.objects.filter(project__in={one.project_id for one in datasets}, dataset__in=names)
    counted = found.order_by().values_list("project_id", "dataset").annotate(num=Count("pk"))
    return {(project, name): num for project, name, num in counted}


# Findings of a node in a dataset, as its page draws them. All of it is text that others wrote: templates escape it.


def badge_of(dataset: Dataset) -> Badge:
    return BADGES[Dataset.State(dataset.state)]


def preview(dataset: Dataset) -> dict[str, object]:
    facts: DatasetFacts = dataset.facts
    columns = facts.get("columns") or []
    classes = sorted(facts.get("classes") or [], key=lambda one: -one["count"])
    images = facts.get("images") or []  # each was checked to be base64 of a PNG when it came
    pictures = grouped((str(one.get("label", "")), f"data:image/png;base64,{one['png']}") for one in images)
    return {
        "kind": facts.get("kind", ""),  # table, text, images; empty where nothing is known
        "columns": [_column(one, dataset.options.get("target", "")) for one in columns[:MAX_COLUMNS]],
        "num_hidden_columns": max(int(facts.get("num_columns") or 0), len(columns)) - len(columns[:MAX_COLUMNS]),
        "titles": [one["name"] for one in columns[:MAX_CELLS]],
        "rows": [[cell(value) for value in row[:MAX_CELLS]] for row in facts.get("rows") or []],
        "classes": [(one["name"], one["count"]) for one in classes[:MAX_CLASSES]],
        "num_hidden_classes": len(classes) - len(classes[:MAX_CLASSES]),
        "text": facts.get("text", ""),
        "pictures": [{"name": name, "urls": urls} for name, urls in sorted(pictures.items())],
        "is_sample": bool(facts.get("is_sample")),
    }


def cell(value: object) -> str:
    """A value of the data in few characters; nothing for one that is missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _column(one: ColumnFacts, target: str) -> dict[str, object]:
    mean = one.get("mean")
    return {
        "name": one["name"],
        "type": one.get("type", ""),
        "missing": count(one["missing"]) if one.get("missing") else "",
        "min": cell(one.get("min")),
        "max": cell(one.get("max")),
        "mean": "" if mean is None else number(mean),
        "distinct": count(one["num_distinct"]) if one.get("num_distinct") is not None else "",
        "examples": ", ".join(filter(None, map(cell, one.get("examples") or [])))[:200],
        "is_target": one["name"] == target,
    }
