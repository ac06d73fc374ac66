"""The page of one run, a view per tab."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.run import evidence, verbs
from dashboard.pages.run import ranks as ranks_table
from dashboard.pages.run.curves import offer_of
from dashboard.pages.run.plan import advice_tab, plan_tab, width_transfer
from dashboard.pages.run.system import drawing_of, machines_of, network_results
from dashboard.pages.run.verbs import nodes_over_time
from dashboard.pages.shared.chart_runs import bands_context, chart_runs, charts_context
from dashboard.pages.shared.frame import View, fresh_json, page, person, show
from dashboard.pages.shared.gauges import time_view
from dashboard.pages.shared.run_rows import Row, give_up_words, offers_of, pause_words, row_with_document, stop_words
from runs import actions
from runs.inputs.repositories.mirrors import MAX_CHARACTERS, difference
from runs.life.stopping import what_ranks_do
from runs.life.watching.scores import LABELS, series_of
from runs.models import Run, RunCode
from runs.placing.planning import BENCHMARK
from runs.records.files import outputs
from runs.records.media.kinds import ALL_OF, ANY_OF
from runs.records.media.read import why_unreadable
from runs.records.metrics import progress
from runs.records.metrics.models import Series
from runs.records.time_use.sums import times_shown
from runs.rights.access import Permission, can, get_run
from runs.rights.access.operations import thing
from runs.rights.secrets.delivery import uses_of
from runs.sweeps.reading import trial_of_run
from trainyard.contract.answers.runs import RunDocument, lamps_of
from trainyard.spec.document import as_yaml

MAX_FILES = 2000
MAX_LINES = 2_000
SAID_WITHIN = timedelta(seconds=5)  # a node reports what it has sent
TABS = (
    ("charts", "Charts", "run", "charts"), ("ranks", "Ranks", "run-ranks", "ranks"),
    ("system", "System", "run-system", "clusters"), ("plan", "Plan", "run-plan", "plan"),
    ("logs", "Logs", "run-logs", "logs"), ("terminal", "Terminal", "run-terminal", "command"),
    ("apps", "Apps", "run-apps", "apps"), ("media", "Media", "run-media", "media"),
    ("checkpoints", "Checkpoints", "run-checkpoints", "checkpoints"), ("files", "Files", "run-files", "files"),
    ("spec", "Spec", "run-spec", "spec"), ("timeline", "Timeline", "run-timeline", "timeline"),
)  # fmt: skip
BESIDE_RANKS = ("terminal", "apps")
HEAT_HINT = "Point at a cell, or tap it, for its rank, node, step and time. Drag to zoom, double click for all."
HEADER = {"header": "runs/_header.html"}
REFRESHED = ("ranks", "system", "plan", "checkpoints", "files", "timeline")  # they have a part that is fetched again
MEDIA_EXAMPLE = """run.log({"samples/first": trainyard.Image("sample.png", caption="a sample")}, step=step)
run.log({"weights/head": trainyard.Histogram(model.head.weight)}, step=step)
run.log({"answers": trainyard.Table(["prompt", "answer"], rows)}, step=step)"""


def tab(view: Callable[[HttpRequest, Run], dict[str, object]]) -> View:
    """Make the page of a tab, which is called as the view is, of what the tab alone shows."""
    key = view.__name__
    fragments = {**HEADER, key: f"runs/_{key}.html"} if key in REFRESHED else HEADER

    @page(get=thing(Permission.RUNS_READ))
    @wraps(view)
    def shown(request: HttpRequest, run_id: str) -> HttpResponse:
        run = get_run(request, run_id)
        context = {**around(request, run, key), **view(request, run)}
        return show(request, f"runs/{key}.html", context, fragments=fragments)

    return shown


@page(get=thing(Permission.RUNS_READ))
def charts(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    if request.GET.get("fragment") == "marks":
        [known] = chart_runs([run])
        return fresh_json({"alarms": known["alarms"], "attempts": known["attempts"], "marks": known["marks"]})
    bands = bands_context(request, [run])
    if request.GET.get("fragment") == "bands":
        return show(request, "runs/_bands.html", bands)
    drawn = charts_context(person(request), [run])
    context = {**around(request, run, "charts"), **drawn, **bands, "curves": offer_of(run)}
    return show(request, "runs/charts.html", context, fragments=HEADER)


@tab
def ranks(request: HttpRequest, run: Run) -> dict[str, object]:
    return {
        "attempts": ranks_table.attempts(run),
        "heat_phases": LABELS,
        "heat_hint": HEAT_HINT,
        "has_heat": Series.objects.filter(run_id=run.pk, name=series_of("forward")).exists(),
        "processes": ranks_table.processes_elsewhere(run) if run.is_local else [],
    }


@tab
def system(request: HttpRequest, run: Run) -> dict[str, object]:
    """Show the machines on which it trains: they are named to whoever may see the run, as on its Ranks."""
    attempt = run.attempts.order_by("-number").prefetch_related("placements__node").first()
    if attempt is None:
        return {}
    machines, num = machines_of(attempt, timezone.now()), len(attempt.placements.all())
    drawing = drawing_of(attempt, run.spec, machines)
    return {"attempt": attempt, "machines": machines, "num_machines": num, "drawing": drawing}


@tab
def plan(request: HttpRequest, run: Run) -> dict[str, object]:
    """Show what was predicted and what was measured; of a benchmark, what it found."""
    is_benchmark = _is_benchmark(run)
    return {
        "is_benchmark": is_benchmark,
        "plan": None if is_benchmark else plan_tab(run),
        "advice": [] if is_benchmark else advice_tab(run, timezone.now()),
        "network": network_results(run) if is_benchmark else None,
        "transfer": width_transfer(run),
    }


@tab
def logs(request: HttpRequest, run: Run) -> dict[str, object]:
    return {
        "attempts": list(run.attempts.order_by("number").values("fence", "number")),
        "start_s": run.started_at.timestamp() if run.started_at else run.created_at.timestamp(),
        "has_no_log": run.is_local and not progress.telemetry([run.pk])[run.pk].num_lines,
    }


@tab
def media(request: HttpRequest, run: Run) -> dict[str, object]:
    kinds = {"all_kinds": ALL_OF, "any_kinds": ANY_OF}
    return {**kinds, "example": MEDIA_EXAMPLE, "unreadable": why_unreadable(run.pk)}


@tab
def files(request: HttpRequest, run: Run) -> dict[str, object]:
    found = listed(run)
    paths = [one["path"] for one in found]
    return {
        "files": found,
        "has_traces": any(path.startswith("traces/") and path.endswith(".json.gz") for path in paths),
        "pending": on_the_way(run, found),
        "left": left_on_nodes(run),
    }


@tab
def spec(request: HttpRequest, run: Run) -> dict[str, object]:
    text = as_yaml(run.spec)
    return {"yaml": text, "code_view": code_view(run), "secret_uses": uses_of(run)}


@tab
def timeline(request: HttpRequest, run: Run) -> dict[str, object]:
    time = times_shown([run], timezone.now()).get(run.pk)
    return {
        "time": None if time is None else time_view(time, "Wall time"),
        "stretches": nodes_over_time(run, timezone.now()),
        "events": run.events.select_related("actor", "attempt").order_by("-at", "-id")[:500],
    }


def around(request: HttpRequest, run: Run, tab: str) -> dict[str, object]:
    row, doc = row_with_document(run, timezone.now())
    url = reverse(next(name for key, _, name, _ in TABS if key == tab), args=(run.pk,))
    attempt = run.live_attempt()
    return {
        "run": run,
        "row": row,
        "offers": offers_of(run),
        "stop_words": stop_words(run),
        "pause_words": pause_words(run),
        "give_up_words": give_up_words(run),
        "doc": doc,
        "lamps": [lamp for _, lamp in lamps_of(doc)],
        "tab": tab,
        "title": title_of(row, doc),
        "tabs": [(key, label, reverse(name, args=(run.pk,)), icon) for key, label, name, icon in tabs_of(run)],
        "url": url,
        "trouble": evidence.trouble(run),
        "remarks": evidence.remarks(doc["troubles"]),
        "slow": verbs.slow_notes(attempt),
        "exclude_words": f"At first {what_ranks_do(run, attempt)}. Then the run goes on from it, on other nodes.",
        "alarm": verbs.alarm_note(attempt),
        "may_act": can(request.user, run.project, Permission.RUNS_LAUNCH),
        "may_share": can(request.user, run.project, Permission.RUNS_SHARE),
        "is_live": run.is_live,
        "following": run.followings.filter(user=person(request)).first(),
        "trial": trial_of_run(run.pk),
    }


def tabs_of(run: Run) -> list[tuple[str, str, str, str]]:
    """Return all tabs but those with nothing for such a run: nobody plans a script, a benchmark has results, and a run
    that was logged outside has no rank of ours to open anything beside."""
    tabs = [tab for tab in TABS if tab[0] not in BESIDE_RANKS or not run.is_local]
    if "recipe" not in run.spec.get("task", {}):
        return [tab for tab in tabs if tab[0] != "plan"]
    if _is_benchmark(run):
        return [("plan", "Results", *tab[2:]) if tab[0] == "plan" else tab for tab in tabs]
    return tabs


def _is_benchmark(run: Run) -> bool:
    return bool(run.spec.get("task", {}).get("recipe") == BENCHMARK)


def title_of(row: Row, doc: RunDocument) -> str:
    """Return the title of the browser's tab: how far a live run is, or the status of another one, and its name."""
    progress = doc["progress"]
    if row.run.is_live and progress is not None:
        return f"{progress:.0%} {row.run.name}"
    return f"{row.run.name}, {row.badge.word}"


# The commit that a run from Git was made of, as its page shows it.


class DiffLine(NamedTuple):
    text: str
    kind: str  # a class of the page: added, removed, place, file, or none


def code_view(run: Run) -> dict[str, object] | None:
    """None for a run whose code is not from Git."""
    code = RunCode.objects.filter(run=run).first()
    if code is None:
        return None
    found = difference(run.project, code)
    patch = run.spec["task"]["code"].get("patch") or ""
    changes = diff_lines(found.patch) if found else []
    return {
        "code": code,
        "changes": changes[:MAX_LINES],  # since the run before
        "patch": diff_lines(patch)[:MAX_LINES],  # over the commit
        "has_previous": found is not None,  # whose commit is still here
        "is_cut": len(changes) > MAX_LINES or bool(found and found.is_cut),
    }


def diff_lines(patch: str) -> list[DiffLine]:
    return [DiffLine(line, _kind(line)) for line in patch[:MAX_CHARACTERS].splitlines()]


def _kind(line: str) -> str:
    if line.startswith(("diff ", "+++ ", "--- ", "index ", "new file", "deleted file", "rename ", "similarity ")):
        return "file"
    return {"+": "added", "-": "removed", "@": "place"}.get(line[:1], "")


# The files that a run left in its output folder, for its Files tab.


def listed(run: Run) -> list[dict[str, Any]]:
    found = sorted(outputs.listing(run.pk), key=lambda one: PurePosixPath(one["path"]))
    url = f"/api/v1/runs/{run.pk}/files"
    return [
        {
            "path": one["path"],
            "size": one["size_bytes"],
            "at": datetime.fromisoformat(one["modified_at"]),
            "url": f"{url}/{quote(one['path'])}",
        }
        for one in found[:MAX_FILES]
    ]


def on_the_way(run: Run, here: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Return what nodes of the newest attempt have that is not sent yet. ``files`` are (path, size, what has gone of it
    or None). A file that has just come is ``here`` before its node says that it was sent."""
    attempt, since = run.attempts.order_by("-number").first(), timezone.now() - SAID_WITHIN
    came, found = {(one["path"], one["size"]) for one in here if one["at"] > since}, []
    for one in attempt.placements.select_related("node") if attempt is not None else ():
        pending, sending = one.output_state.pending, one.output_state.sending
        sent = {path for path, size in pending.items() if {(path, size), (f"node-{one.node_rank}/{path}", size)} & came}
        if one.output_state.num_pending > len(sent) and one.done_at is None:
            files = [(path, size, sending.get(path)) for path, size in pending.items() if path not in sent]
            found.append({"node": one.node.name, "files": files, "num_files": one.output_state.num_pending - len(sent)})
    return found


def left_on_nodes(run: Run) -> list[dict[str, object]]:
    """Return what waits on nodes for somebody's word."""
    found = []
    for one in actions.undecided(run):
        files = [(str(file["path"]), int(file["size_bytes"]), None) for file in one.gained.get("files", [])]
        gained = {"num_files": int(one.gained.get("num_files") or 0), "size": int(one.gained.get("bytes") or 0)}
        asked = {"refused": list(one.output_state.refused.items()), "decided": one.leftovers}
        name = f"{one.node.name}, attempt {one.attempt.number}" if one.attempt.number > 1 else one.node.name
        found.append({"node": name, "files": files, **gained, **asked})
    return found
