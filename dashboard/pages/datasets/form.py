"""The page on which somebody names data."""

import re
import shlex

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from dashboard.pages.datasets.views import SOURCES
from dashboard.pages.shared.frame import page, person, problems_of, show
from runs import actions
from runs.inputs.datasets import options_of
from runs.rights.access import Forbidden, Permission, get_cluster_for, get_project, projects_with, visible_clusters
from runs.rights.access.operations import SIGNED_IN, thing

NUMBER = re.compile(r"[0-9]{1,9}")
FIELDS = ("name", "project", "cluster", "source", "location")
LAYOUTS = {
    "text": "A file, or a folder with all its files: a model learns to continue them.",
    "jsonl": "A file, or a folder of .jsonl files: one JSON object a line, one field of which is text.",
    "npz": "Arrays x and y in .npz files: images and their classes; or rows of numbers, if a target (y) is named.",
    "csv": "The columns' names, then one row a line. One column is the target: what the model learns to predict.",
    "parquet": "A file, or a folder of .parquet files with the same columns. One is the target, which is predicted.",
    "images": "One folder for each class, with its PNG, JPEG, WebP or GIF files.",
}
EXAMPLES = {"text": "/data/books", "jsonl": "/data/notes.jsonl", "npz": "/data/digits.npz", "csv": "/data/rows.csv",
            "parquet": "/data/rows", "images": "/data/photos"}  # fmt: skip


@page(get=SIGNED_IN, post=thing(Permission.DATASETS_EDIT))
def add(request: HttpRequest) -> HttpResponse:
    projects = list(projects_with(request.user, Permission.DATASETS_EDIT).values_list("name", flat=True))
    clusters = list(visible_clusters(request.user).values_list("name", flat=True))
    values = _asked(request, projects, clusters)
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            return redirect("dataset", _create(request, values))
        except ValidationError as error:
            problems = problems_of(error)
        except actions.Refused as error:
            problems = {"name": error.sentence}
    context = {
        "values": values,
        "problems": problems,
        "projects": projects,
        "clusters": clusters,
        "sources": [(source, SOURCES[source], LAYOUTS[source]) for source in SOURCES],
        "options": _options(values, problems),
        "command": _command(values),
    }
    return show(request, "datasets/new.html", context, status=422 if problems else 200)


def _create(request: HttpRequest, values: dict[str, str]) -> str:
    """Return the id of what was made. Raises what create_dataset raises."""
    project = get_project(request.user, values["project"], Permission.DATASETS_EDIT)
    try:
        cluster = get_cluster_for(request.user, project, values["cluster"])
    except Forbidden as error:  # the project may not use the cluster: that is said beside the field
        raise ValidationError({"cluster": str(error)}) from None
    options = {
        name: int(values[name]) if info.kind == "number" and NUMBER.fullmatch(values[name]) else values[name]
        for name, info in options_of(values["source"]).items()
        if values[name]
    }
    given = {name: values[name] for name in ("name", "source", "location")}
    made = actions.create_dataset(actor=person(request), project=project, cluster=cluster, **given, options=options)
    return made.pk


def _option_names() -> list[str]:
    return list(dict.fromkeys(name for source in SOURCES for name in options_of(source)))


def _options(values: dict[str, str], problems: dict[str, str]) -> list[dict[str, str]]:
    """Return the fields that only some sources have; ``only`` has the classes that show one beside these."""
    made = []
    for name in _option_names():
        sources = [source for source in SOURCES if name in options_of(source)]
        info = options_of(sources[0])[name]
        only = " ".join(f"for-{source}" for source in sources)
        own = {"name": name, "label": info.label, "help": info.help, "only": only, "placeholder": str(info.default)}
        made.append({**own, "value": values[name], "problem": problems.get(name, "")})
    return made


def _asked(request: HttpRequest, projects: list[str], clusters: list[str]) -> dict[str, str]:
    first = {
        "project": "default" if "default" in projects else next(iter(projects), ""),
        "cluster": "local" if "local" in clusters else next(iter(clusters), ""),
        "source": "csv",
    }
    return {name: request.POST.get(name, first.get(name, "")).strip() for name in (*FIELDS, *_option_names())}


def _command(values: dict[str, str]) -> str:
    source = values["source"] if values["source"] in EXAMPLES else "csv"
    location = values["location"] or EXAMPLES[source]
    words = ["trainyard", "dataset", "add", values["name"] or "NAME", "--source", source, "--location", location]
    for name in options_of(source):
        if values.get(name):
            words += [f"--{name.replace('_', '-')}", values[name]]
    return shlex.join(words)
