"""Sharing: the dialog that makes links, the page behind a link, and the file of a thing, without scripts."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import yaml
from django.core.exceptions import ValidationError
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.views.decorators.debug import sensitive_variables

from dashboard.frontend.bundles import root
from dashboard.pages.compare.rows import choose_metric, rows_of
from dashboard.pages.compare.specs import NOT_SET, differing
from dashboard.pages.reports.render import Shown
from dashboard.pages.shared.badges import badge, run_badge, trial_badge
from dashboard.pages.shared.chart_runs import fields_of
from dashboard.pages.shared.frame import page, person, show
from dashboard.pages.shared.numbers import setting
from dashboard.pages.shared.redaction import without_secrets
from dashboard.pages.shared.run_colours import colours_apart
from dashboard.pages.shared.still import StillLine, still_chart, still_charts
from dashboard.pages.sweeps.columns import labels_of
from runs.actions import sharing
from runs.actions.sharing import Closed, Shared, open_link, revoke_share, thing_of
from runs.models import Run, User
from runs.presenting.annex import annex_of
from runs.presenting.runs import single_document
from runs.records.metrics.models import Series
from runs.records.points import read
from runs.rights.access import NotFound, Permission, get_shared_link, visible_shared_links
from runs.rights.access.operations import PUBLIC, thing
from runs.serving.login_limits import claim, network
from runs.sweeps.analysis.best import best_over_trials
from runs.sweeps.reading import summary_of, sweep_trials, trial_points

MAX_CHARTS, MAX_FIELDS, MAX_TRIALS = 24, 8, 200
MAX_LINES = 10  # of a run in a chart
FIRST, LAST = ("train", "val"), ("system",)
OWN_LINK = re.compile(r'<a\b[^>]*?href="(?!https?:|mailto:)[^"]*"[^>]*>(.*?)</a>', re.S)  # leads nowhere from elsewhere
IMAGE, NO_IMAGE = re.compile(r"<img\b[^>]*>"), "<em>(an image that is seen after signing in)</em>"
FETCHED = re.compile(r"@import[^;]*;|@font-face\s*\{[^}]*\}")  # what a stylesheet would ask a server for


def draw(user: User, thing: Shared, *, refreshes: bool | None = None) -> str:
    """Return the page, with the runs in the colours of that person. ``refreshes``: while the thing goes on, as a guest
    asked for; None: nobody can ask."""
    is_live = any(run.is_live for run in thing.runs) or (thing.sweep is not None and thing.sweep.ended_at is None)
    context = {"thing": thing, "is_live": is_live, "refreshes": refreshes if is_live else None, "now": timezone.now()}
    context |= {"css": styles(), "title": thing.title, **DRAWINGS[thing.kind](user, thing)}
    return render_to_string(f"sharing/{thing.kind}.html", context)


@cache
def styles() -> SafeString:
    """Return the stylesheets of these pages as one text that fetches nothing."""
    texts = [(root() / "css" / f"{name}.css").read_text() for name in ("tokens", "still", "reports", "shared")]
    return mark_safe(FETCHED.sub("", "\n".join(texts)))


def _run(user: User, thing: Shared) -> dict[str, object]:
    [run] = thing.runs
    documents = [("Configuration", _text(run.config)), ("Spec", _text(run.spec))]
    shown = {"run": run, "doc": (doc := single_document(run)), "badge": run_badge(run), "documents": documents}
    shown["metrics"] = sorted(doc["summary"].items(), key=lambda one: _place(one[0]))
    took_s = ((run.ended_at or timezone.now()) - run.started_at).total_seconds() if run.started_at else None
    return {**shown, "took_s": took_s, "events": run.events.order_by("-at", "-id"), **_charts([run], {run.pk: 0})}


def _comparison(user: User, thing: Shared) -> dict[str, object]:
    runs, query = thing.runs, QueryDict(thing.name.partition("?")[2])
    ids = [run.pk for run in runs]
    metric = choose_metric(read.series_names(ids), query.get("metric", ""), query.get("statistic", ""))
    fields = {run.pk: fields_of(without_secrets(run.spec)) for run in runs}
    differ, colours = differing(list(fields.values())), colours_apart(user, runs, is_kept=False)
    rows = rows_of(runs, metric.of_runs(ids), colours, fields, (), {})
    texts = [(row, [fields[row.run.pk].get(path, NOT_SET) for path in differ[:MAX_FIELDS]]) for row in rows]
    return {"metric": metric, "differ": differ, "rows": texts, **_charts(runs, colours)}


def _sweep(user: User, thing: Shared) -> dict[str, object]:
    assert thing.sweep is not None, "a sweep is shared"
    summary = summary_of(thing.sweep)
    spec, labels, goal = summary.spec, labels_of(list(summary.spec.space)), summary.spec.objectives[0]
    trials = sweep_trials(thing.sweep, timezone.now())
    found = best_over_trials([] if spec.is_multiple else trial_points(thing.sweep), goal.direction)
    best = [
        *((one.at, one.value) for one in found.improvements),
        *((found.end, one.value) for one in found.improvements[-1:]),
    ]
    columns = {"step": np.array([at for at, _ in best]), "value": np.array([value for _, value in best])}
    line = StillLine(0, "best so far", [read.Curve("", goal.metric, {}, 1, "raw", columns)])
    chart = still_chart(f"Best {goal.metric} over trials", [line]) if best else ""
    rows = [
        (one, trial_badge(one["state"]), [setting(given[p]) if p in given else "–" for p in labels])
        for one in trials[:MAX_TRIALS]
        for given in [one["parameters"]]
    ]
    shown = {"sweep": summary, "badge": badge(summary.row.status), "labels": labels.values()}
    return {**shown, "chart": chart, "rows": rows, "num_trials": len(trials)}


def _report(user: User, thing: Shared) -> dict[str, object]:
    """The newest version, with runs of its project alone: its maker may share no others. Images stay here."""
    assert thing.report is not None, "a report is shared"
    version = thing.report.versions.get(number=thing.report.version)
    shown = Shown(user, thing.project, version.pinned, version.at, is_for_guest=True)
    drawn = OWN_LINK.sub(r"\1", IMAGE.sub(NO_IMAGE, shown.draw(version.body)))
    return {"version": version, "drawn": mark_safe(drawn)}


ANNEX = "annex-xi"
DRAWINGS: dict[str, Callable[[User, Shared], dict[str, object]]] = {
    "run": _run, "compare": _comparison, "sweep": _sweep, "report": _report,
    ANNEX: lambda _, thing: {"figures": annex_of(thing.runs[0], timezone.now())},
}  # fmt: skip


def _charts(runs: Sequence[Run], colours: Mapping[str, int]) -> dict[str, object]:
    """Draw the metrics that people look at first, by the prefix of their names. Left out are those behind, and those of
    which a run has very many lines, as one for each rank."""
    ids, most = [run.pk for run in runs], MAX_LINES if len(runs) == 1 else 1
    counted = Series.objects.filter(run_id__in=ids).order_by().values_list("name", "run_id").annotate(Count("pk"))
    names = {name for name, _, _ in counted}
    drawn = sorted(names - {name for name, _, num in counted if num > most}, key=_place)[:MAX_CHARTS]
    points = 400 if len(runs) <= MAX_LINES else 100
    curves = read.curves(dict.fromkeys(ids, (None, None)), drawn, points=points)[1] if drawn else []
    lines = {run.pk: (colours[run.pk], run.name) for run in runs}
    groups = [(title, still_charts(list(some), curves, lines)) for title, some in groupby(drawn, _prefix)]
    return {"groups": groups, "num_left_out": len(names) - len(drawn)}


def _text(document: Any) -> str:
    """A large configuration is written in C, or guests would wait."""
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(without_secrets(document), Dumper=dumper, sort_keys=False, allow_unicode=True, width=100))


def _prefix(name: str) -> str:
    return name.partition("/")[0] if "/" in name else "metrics"


def _place(name: str) -> tuple[int, str, bool, str]:
    prefix = _prefix(name)
    return (*FIRST, prefix).index(prefix) + (prefix in LAST), prefix, "loss" not in name, name


COMPARISON = "compare?"  # its runs are in the address of the page that asks
LIVES = {"1": "1 day", "7": "7 days", "30": "30 days", "365": "1 year"}
FRAGMENTS = {"dialog": "sharing/_share.html", "form": "sharing/_form.html"}
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,  # nothing runs, and nothing is fetched or sent
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow",
    "Cache-Control": "private, no-store",
}


@page(get=PUBLIC)
@sensitive_variables("secret")
def shared(request: HttpRequest, secret: str) -> HttpResponse:
    """Show a guest what the link is about. A page that refreshes itself is opened once."""
    request.path = request.path_info = "/shared/"  # for logs, which have no secret
    try:
        is_again = "again" in request.GET
        found = open_link(secret, is_counted=request.method == "GET" and not is_again)
        return HttpResponse(draw(*found, refreshes=is_again), headers=HEADERS)
    except Closed as error:
        return _closed(410, str(error))
    except NotFound as error:
        wait_s = claim(account=f"guest of {network(request.META.get('REMOTE_ADDR', ''))}", address=None)
        if not wait_s:
            return _closed(404, str(error))
        answer = _closed(429, f"Too many links that do not exist were tried from here. Wait {wait_s} s.")
        answer["Retry-After"] = str(wait_s)
        return answer


def _closed(status: int, sentence: str) -> HttpResponse:
    html = render_to_string("sharing/closed.html", {"css": styles(), "sentence": sentence, "title": "Shared"})
    return HttpResponse(html, status=status, headers=HEADERS)


@page(get=thing(Permission.RUNS_READ))
def export(request: HttpRequest) -> HttpResponse:
    """The same page as one file, or of a run the sheet of the EU AI Act."""
    chosen = _thing(request, Permission.RUNS_READ)
    if chosen.kind == "run" and request.GET.get("sheet") == ANNEX:
        chosen = chosen._replace(kind=ANNEX, title=f"{chosen.title}, Annex XI")
    named = f'attachment; filename="{slugify(chosen.title)[:80] or chosen.kind}.html"'
    return HttpResponse(draw(person(request), chosen), headers={**HEADERS, "Content-Disposition": named})


@page(get=thing(Permission.RUNS_SHARE), post=thing(Permission.RUNS_SHARE))
def share(request: HttpRequest) -> HttpResponse:
    chosen, days = _thing(request, Permission.RUNS_SHARE), request.POST.get("days")
    if days is None:
        return _dialog(request, chosen)
    if days not in LIVES:
        raise ValidationError({"days": f"{days[:20]!r} is no choice; accepted: {', '.join(LIVES)}."})
    ends_at = timezone.now() + timedelta(days=int(days))
    return _dialog(request, chosen, sharing.share(actor=person(request), name=chosen.name, expires_at=ends_at)[1])


@page(post=thing(Permission.RUNS_SHARE))
def revoke(request: HttpRequest, share_id: str) -> HttpResponse:
    link = get_shared_link(request, share_id)
    revoke_share(actor=person(request), link=link)
    return _dialog(request, thing_of(person(request), link.object, Permission.RUNS_SHARE))


def _thing(request: HttpRequest, wanted: Permission) -> Shared:
    name = request.POST.get("object") or request.GET.get("object", "")
    if name == COMPARISON:
        name += urlsplit(request.headers.get("Referer", "")).query
    return thing_of(person(request), name, wanted)


def _dialog(request: HttpRequest, chosen: Shared, url: str = "") -> HttpResponse:
    links = visible_shared_links(request.user).filter(
        object=chosen.name, revoked_at=None, expires_at__gt=timezone.now()
    )
    context = {"shown": chosen, "url": url, "lives": LIVES.items(), "links": links}
    return show(request, "sharing/share.html", context, fragments=FRAGMENTS)
