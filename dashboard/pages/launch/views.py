"""The launch page: a form that is generated from the spec, and beside it what would come of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone

from dashboard.pages.launch import sources as launch_sources
from dashboard.pages.launch import spec_form, sweep_form
from dashboard.pages.launch.plan import Plan, plan, problems_in
from dashboard.pages.launch.sources import OWN, FormSource
from dashboard.pages.launch.strip import lifted_fields, said_of
from dashboard.pages.launch.sweep_form import SweepPlan, SweepTyped
from dashboard.pages.shared.frame import page, person, refusal, show
from runs.actions import save_job, store_bundle, submit_run
from runs.inputs.datasets import recipes_with
from runs.models import Cluster, CodeBundle, Run
from runs.rights import access
from runs.rights.access.operations import SIGNED_IN, thing
from runs.sweeps.actions import start_sweep
from trainyard import bundle
from trainyard.bundle import MAX_BYTES, BundleError
from trainyard.code_folder import LEFT_OUT
from trainyard.contract.base import JsonObject
from trainyard.grouping import grouped
from trainyard.spec import Problem, SpecError, form_fields
from trainyard.spec.document import line_at

SMALLER = "choose a smaller folder"
Choices = dict[str, list[spec_form.Option]]  # what there is to choose from, of what a spec takes as text, by its path

NUM_BUNDLES = 20
NUM_DATASETS = 200
MAX_YAML = 2**20  # characters


class Prospect(TypedDict):
    """Preview of a launch: the right column of the page."""

    plan: Plan
    sweep_plan: SweepPlan | None
    found_problems: dict[str, str]  # by the path of the field
    lifted: list[str]  # the fields of the strip
    said: dict[str, str]  # beside the fields, by place


@page(get=SIGNED_IN, post=thing(access.Permission.RUNS_LAUNCH))
def launch(request: HttpRequest) -> HttpResponse:
    """Show the form; on POST launch it (or, with ``do=save``, keep it as a job), or show it with what is wrong.

    What needs more memory than there is, is launched with ``do=launch-anyway`` alone: the planner may be wrong.
    """
    source = _source(request)
    if request.method != "POST":
        places = _places(request)
        nothing = SweepTyped(bool(request.GET.get("sweep")), [], dict(sweep_form.DEFAULTS))
        sweep = nothing if source.sweep is None else sweep_form.typed_of(source.sweep)
        return _show(request, source, _at_home(source, places), sweep, [], places=places)
    typed, sweep = spec_form.typed_in(request.POST), sweep_form.typed_in(request.POST)
    if request.POST.get("do") == "apply":
        return _apply(request, source, typed, sweep)
    try:
        document = _with_code(request, typed)
        if request.POST.get("do") == "sweep":
            return redirect("sweep", start_sweep(actor=person(request), document=sweep.document(document)).pk)
        if request.POST.get("do") == "save":
            return redirect("job", save_job(actor=person(request), document=document).pk)
        if request.POST.get("do") != "launch-anyway" and _prospect(request, typed, sweep, source)["plan"].overflow:
            return _show(request, source, typed, sweep, [], status=422, must_confirm=True)
        return redirect("run", _submit(request, source, document).pk)
    except (SpecError, access.NotFound, access.Forbidden) as error:
        # Said beside its field, so that nothing typed is lost.
        return _show(request, source, typed, sweep, problems_in(error), status=422)


@page(post=SIGNED_IN)
def preview(request: HttpRequest) -> HttpResponse:
    """The right column for what the form holds now; nothing is written."""
    typed, sweep = spec_form.typed_in(request.POST), sweep_form.typed_in(request.POST)
    context = _prospect(request, typed, sweep, _source(request))
    return show(request, "launch/_aside.html", context)


@page(post=thing(access.Permission.RUNS_LAUNCH))
def upload_code(request: HttpRequest) -> HttpResponse:
    """Keep a folder's files as a bundle of the project, and say what it is called."""
    project = access.get_project(request.user, request.POST.get("project", ""), access.Permission.RUNS_LAUNCH)
    try:
        data = uploaded(request)
        if data is None:
            return refusal(request, 422, "No file came with this.")
        stored = store_bundle(actor=person(request), project=project, data=data)
    except ValueError as error:
        return refusal(request, 422, f"This cannot be used as code: {error}.")
    return JsonResponse({"sha256": stored.sha256, "label": _label(stored), "files": stored.files[:500]})


def _source(request: HttpRequest) -> FormSource:
    key = request.POST.get("from") or request.GET.get("from", "")
    first = launch_sources.FIRST_SWEEP if request.GET.get("sweep") else launch_sources.FIRST
    try:
        return launch_sources.find(request.user, key or f"example:{first}")
    except access.NotFound:
        if request.method == "POST":  # it was deleted while somebody typed: that is not lost
            return FormSource("", "the defaults", {"task": {"recipe": spec_form.TASKS[0]}})
        raise


def _at_home(source: FormSource, places: Choices) -> spec_form.Typed:
    """Return what the source says; of what is shipped, in a project and on a cluster that this person has."""
    typed = spec_form.typed_of(source.document)
    if source.run is not None:
        typed["name"] = launch_sources.next_name(source.run)
    if source.job is None and source.run is None:
        for path, options in places.items():
            names = [one.value for one in options if not one.projects or typed["project"] in one.projects.split()]
            if names and typed[path] not in names:
                typed[path] = names[0]
    return typed


def _apply(request: HttpRequest, source: FormSource, typed: spec_form.Typed, sweep: SweepTyped) -> HttpResponse:
    """Fill the form from the YAML; where that cannot be, the form stays as it was, and the YAML as it was typed."""
    text = _yaml_in(request)
    try:
        if len(text) > MAX_YAML:
            raise SpecError([Problem("", f"it has {len(text):,} characters; at most {MAX_YAML:,} are read")])
        document, found = launch_sources.read_yaml(text)
    except SpecError as error:
        above = "sweep." if text.startswith("sweep:") else ""
        lines = [(line_at(text, above + one.path) if one.path else 0, one) for one in error.errors]
        return _show(request, source, typed, sweep, [], status=422, yaml_problems=lines)
    return _show(request, source, spec_form.typed_of(document), sweep_form.typed_of(found) if found else sweep, [])


def _yaml_in(request: HttpRequest) -> str:
    return request.POST.get("yaml", "").replace("\r\n", "\n").strip()


def _submit(request: HttpRequest, source: FormSource, document: JsonObject) -> Run:
    user = person(request)
    if source.job is not None and source.job.spec["task"].get("recipe") == document["task"].get("recipe"):
        # It stays a run of that job, without those of its tags that were taken away.
        return submit_run(actor=user, job=source.job, overrides={"tags": [], **document})
    return submit_run(actor=user, document=document, parent=source.run)


def _with_code(request: HttpRequest, typed: spec_form.Typed) -> JsonObject:
    """Store the code that came along, note its digest in ``typed``, and return the document."""
    if typed["task"] == "script":
        try:
            data = uploaded(request)
            if data is None and typed["task.code"].startswith(OWN):
                data = launch_sources.own_code(typed["task.code"].removeprefix(OWN))[0]
            if data is not None:
                project = access.get_project(request.user, typed["project"], access.Permission.RUNS_LAUNCH)
                typed["task.code"] = store_bundle(actor=person(request), project=project, data=data).sha256
        except (BundleError, ValueError) as error:
            raise SpecError([Problem("task.code", str(error))]) from None
    return spec_form.document_of(typed)


def _show(
    request: HttpRequest,
    source: FormSource,
    typed: spec_form.Typed,
    sweep: SweepTyped,
    problems: list[Problem],
    *,
    status: int = 200,
    must_confirm: bool = False,
    places: Choices | None = None,
    yaml_problems: Sequence[tuple[int, Problem]] = (),
) -> HttpResponse:
    stored = CodeBundle.objects.filter(project__in=access.visible_projects(request.user))
    bundles = list(stored.order_by("-created_at")[:NUM_BUNDLES])
    choices = {**(places or _places(request)), **_data_and_code(request, typed, bundles)}
    is_sweep = request.POST.get("do") == "sweep"
    problems, of_sweep = (sweep_form.base_problems(problems), problems) if is_sweep else (problems, [])
    prospect = _prospect(request, typed, sweep, source)
    lifted, said = prospect["lifted"], prospect["said"]
    written = "" if request.POST.get("do") == "apply" and not yaml_problems else _yaml_in(request)
    context = {
        **prospect,
        **sweep_form.context(sweep, of_sweep),
        "source": source,
        "offered": launch_sources.offered(request.user),
        "task": typed["task"],
        "kinds": spec_form.kinds(),
        "strip": spec_form.controls_at(lifted, typed, problems, choices),
        "sections": [(one, said[one.key]) for one in spec_form.sections(typed, problems, choices, lifted)],
        "written": written if written != prospect["plan"].yaml.strip() else "",
        "yaml_problems": yaml_problems,
        "may_launch": bool(choices["project"]),
        "problems": problems or of_sweep,
        "must_confirm": must_confirm,
        "is_saving": request.POST.get("do") == "save",
        "problem": spec_form.problems_by_path(problems).get("", ""),
        "scripts": _scripts(bundles, typed["task.code"]),
    }
    return show(request, "launch/launch.html", context, status=status)


def _prospect(request: HttpRequest, typed: spec_form.Typed, sweep: SweepTyped, source: FormSource) -> Prospect:
    code, packed = typed["task.code"], {}
    if code.startswith(OWN):
        _, code, files = launch_sources.own_code(code.removeprefix(OWN))
        packed = {code: files}
    document, coloured_by = spec_form.document_of({**typed, "task.code": code}), request.POST.get("coloured-by", "")
    found = plan(request.user, document, timezone.now(), coloured_by=coloured_by, packed=packed, source=source.key)
    by_path = {path: words for path, words in spec_form.problems_by_path(found.problems).items() if path}
    planned = sweep_form.sweep_plan(person(request), sweep, document, found.cost) if sweep.entries else None
    # The fields of the strip: those that the form came with, and else what this person changes.
    known, sent = {info.path for info in form_fields()}, request.POST.get("lifted", "").split()
    lifted = [path for path in dict.fromkeys(sent) if path in known] or lifted_fields(person(request), typed)
    said = said_of(source, typed, lifted)
    return Prospect(plan=found, sweep_plan=planned, found_problems=by_path, lifted=lifted, said=said)


def _places(request: HttpRequest) -> Choices:
    """The projects in which the person may launch, and what these may use: each cluster with the names of those that
    may."""
    projects = dict(access.projects_with(request.user, access.Permission.RUNS_LAUNCH).values_list("pk", "name"))
    lets = Cluster.projects.through.objects.filter(project__in=list(projects))
    pairs = lets.values_list("cluster__name", "project_id")
    found = grouped((cluster, projects[project]) for cluster, project in pairs)
    return {
        "project": [spec_form.Option(name, name) for name in projects.values()],
        "cluster": [spec_form.Option(name, name, projects=" ".join(sorted(found[name]))) for name in sorted(found)],
    }


def _data_and_code(request: HttpRequest, typed: spec_form.Typed, bundles: Sequence[CodeBundle]) -> Choices:
    code = typed["task.code"]
    codes = [spec_form.Option(code, "the example's own folder")] if code.startswith(OWN) else []
    codes += [spec_form.Option(one.sha256, _label(one)) for one in bundles]
    data = [spec_form.Option("", "none"), *_datasets(request)]
    return {"task.code": [spec_form.Option("", "none yet"), *codes], "task.data.dataset": data}


def _datasets(request: HttpRequest) -> list[spec_form.Option]:
    """Return the projects' datasets, each name once and for the recipes that read any dataset of that name."""
    rows = access.visible_datasets(request.user).values_list("name", "source", "state")[:NUM_DATASETS]
    found = grouped((name, (source, state)) for name, source, state in rows)
    readers = {source: recipes_with(source) for same in found.values() for source, _ in same}
    made = []
    for name, same in found.items():
        read_by = {recipe for source, _ in same for recipe in readers[source]}
        words = " or ".join(dict.fromkeys(f"{source}, {state}" for source, state in same))
        tasks = " ".join(task for task in spec_form.TASKS if task in read_by)
        made.append(spec_form.Option(name, f"{name} ({words})", tasks))
    return made


def _scripts(bundles: Sequence[CodeBundle], code: str) -> list[str]:
    if code.startswith(OWN):
        files = launch_sources.own_code(code.removeprefix(OWN))[2]
    else:
        files = next((one.files for one in bundles if one.sha256 == code), [])
    return [name for name in files if name.endswith(".py")][:500]


def _label(stored: CodeBundle) -> str:
    num = len(stored.files)
    return f"{stored.sha256[:12]} · {num} {'file' if num == 1 else 'files'} · {stored.created_at:%d %b, %H:%M}"


# Code that comes with the launch form: a folder that the browser sent file by file, or a packed one.


def uploaded(request: HttpRequest) -> bytes | None:
    """Return what was sent as a bundle, None where nothing was. Raises BundleError for what is none."""
    archive = request.FILES.get("archive")
    if isinstance(archive, UploadedFile) and archive.size:
        if archive.size > MAX_BYTES:
            raise BundleError(f"the code has more than {MAX_BYTES // 2**20} MB; {SMALLER}")
        return pack([archive], [archive.name or ""]) if (archive.name or "").endswith(".py") else bytes(archive.read())
    files = [one for one in request.FILES.getlist("files") if one.name]
    return pack(files, request.POST.getlist("paths")) if files else None


def pack(files: Sequence[UploadedFile[Any]], paths: Sequence[str]) -> bytes:
    """Pack the files under their paths inside the chosen folder; without scripts a browser sends bare names."""
    names = list(paths) if len(paths) == len(files) else [one.name or "" for one in files]
    bundle.check_size({name: one.size or 0 for name, one in zip(names, files, strict=True)}, "the code", SMALLER)
    with tempfile.TemporaryDirectory() as folder:
        for file, name in zip(files, names, strict=True):
            path = _inside(name)
            if LEFT_OUT.isdisjoint(path.parts):
                bundle.check_name(str(path))
                _write(Path(folder, path), file)
        return bundle.pack(Path(folder))[0]


def _write(target: Path, file: UploadedFile[Any]) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read())
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise BundleError(f"{target.name!r:.200} and another entry are a file and a folder of one name") from None


def _inside(name: str) -> PurePosixPath:
    """Drop the chosen folder's own name. Raises BundleError for a path that leads out of it."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.name:
        raise BundleError(f"{name!r:.200} is no path inside the folder")
    return PurePosixPath(*path.parts[1:]) if len(path.parts) > 1 else path
