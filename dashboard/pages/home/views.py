"""Home: what needs a person, what is running, how full the clusters are, what ended last."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml
from django.conf import settings
from django.db.models import Case, Count, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.shared.badges import Badge, badge
from dashboard.pages.shared.frame import answer, page, person, show
from dashboard.pages.shared.gauges import time_view
from dashboard.pages.shared.run_rows import Row, coloured, rows
from runs.actions import submit_run
from runs.models import Attempt, Cluster, HeldSlot, Node, Project, Run, User
from runs.models.indexes import first_rows_together, is_none, one_of
from runs.presenting.server_state import contact_time
from runs.records.time_use.sums import WEEK, time_of_all
from runs.rights.access import Permission, Someone, nodes_of, projects_with, visible_clusters, visible_runs
from runs.rights.access.operations import SIGNED_IN, thing
from runs.values.columns import LimitNotice
from runs.values.status import FINAL, LIVE, PLACED, Status
from trainyard.formats.words import listed
from trainyard.grouping import grouped

VISIT_GAP = timedelta(minutes=30)  # after which one was away
KEPT_APART = timedelta(minutes=1)  # a visit is written no more often
LONGEST = timedelta(days=30)
UNREAD = ("inventory", "health", "self_check", "standby")  # documents, which no list shows
ORDER = [Status.FAILED, Status.SUCCEEDED, Status.CANCELLED]


class Change(NamedTuple):
    """So many runs that ended so, or that others launched (then without a badge), and the table of them."""

    badge: Badge | None
    num: int
    url: str


def since_last_visit(user: User, now: datetime) -> datetime | None:
    """Note that the person looks now. Return when they looked last before they were away, None where they never did."""
    seen = user.home_seen_at
    if seen is None or now - seen > VISIT_GAP:
        user.home_left_at = seen
    if seen is None or now - seen > KEPT_APART:
        user.home_seen_at = now
        User.objects.filter(pk=user.pk).update(home_seen_at=now, home_left_at=user.home_left_at)
    return user.home_left_at


def changes_since(user: User, runs: QuerySet[Run], since: datetime | None, now: datetime) -> list[Change]:
    """Count the runs that ended since then, by how, and those that others launched; of a month at most."""
    if since is None:
        return []
    since = max(since, now - LONGEST).replace(microsecond=0)
    ended = runs.filter(one_of("status", FINAL), ended_at__gte=since, ended_at__isnull=False).order_by()
    counts: dict[str, int] = dict(ended.values_list("status").annotate(num=Count("pk")))
    moment = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    found = [
        Change(badge(status), counts[status], _table(f"ended >= {moment} and status = {status}"))
        for status in ORDER
        if counts.get(status)
    ]
    launched = runs.filter(~Q(created_by=user), created_at__gte=since).order_by().count()
    others = _table(f'created >= {moment} and user != "{user.username}"')
    return [*found, Change(None, launched, others)] if launched else found


def _table(words: str) -> str:
    return f"{reverse('runs')}?{urlencode({'filter': words, 'trials': '1'})}"


MAX_FAILED = 5
MAX_TROUBLED = 20
MAX_RUNNING = 12
MAX_WAITING = 6
WAITING = LIVE - PLACED
NEAREST_FIRST = Case(  # what trains, what trained, what will
    When(status=Status.RUNNING, then=0), When(status__in=(Status.SCHEDULED, Status.STARTING), then=2), default=1
)
MAX_ENDED = 6
MAX_ENDLESS = 5  # of those that were logged elsewhere: nobody knows whether they run
EXAMPLE = settings.BASE_DIR / "examples/hello-gpt.yaml"


@page(get=SIGNED_IN)
def home(request: HttpRequest) -> HttpResponse:
    now, user = timezone.now(), person(request)
    since = user.home_left_at if "fragment" in request.GET else since_last_visit(user, now)
    mine_first = Case(When(created_by=user, then=0), default=1)
    runs = visible_runs(request.user).filter(archived_at=None)
    # Read along the index of the runs that have not ended: asked by status alone, SQLite would take one of all runs.
    unended = runs.filter(ended_at=None)
    running = unended.filter(one_of("status", PLACED), is_none("local_id") | one_of("status", [Status.RUNNING]))
    waiting = unended.filter(is_none("local_id"), one_of("status", WAITING))
    failed = runs.filter(one_of("status", [Status.FAILED]), ended_at__gte=now - LATELY)  # nobody restarted them since
    elsewhere = unended.filter(one_of("status", [Status.LOST])).exclude(local_id=None)
    live, queued, troubled, endless, ended, failures, idle = _rows(
        [
            (running.order_by(mine_first, NEAREST_FIRST, "-created_at", "-pk"), MAX_RUNNING),
            (waiting.order_by(mine_first, "created_at", "pk"), MAX_WAITING),
            (troubled_runs(runs, now), MAX_TROUBLED),
            (elsewhere, MAX_ENDLESS),
            (runs.filter(one_of("status", FINAL), ended_at__isnull=False).order_by("-ended_at", "-pk"), MAX_ENDED),
            (failed.order_by("-ended_at", "-pk"), MAX_FAILED),
            (idle_runs(runs, user), MAX_TROUBLED),
        ],
        user,
        now,
    )
    troubled = [row for row in troubled if row not in live]
    may_act_in = set(projects_with(request.user, Permission.RUNS_LAUNCH).values_list("pk", flat=True))
    needs = needs_of([*live, *troubled, *endless], failures, idle, now)
    machines = machines_of(request.user)
    away, notices = away_nodes(machines, now), limit_notices(user, since, now)
    context: dict[str, Any] = {
        "needs": needs,
        "away": away,
        "notices": notices,
        "num_needs": len(needs) + len(away) + len(notices),
        "live": live,
        "num_live": running.count() if len(live) == MAX_RUNNING else len(live),
        "queued": queued,
        "num_queued": waiting.count() if len(queued) == MAX_WAITING else len(queued),
        "ended": ended,
        "clusters": cluster_lines(request.user, machines, now),
        "is_first_start": not any((live, queued, endless, ended)) and not visible_runs(request.user).exists(),
        "since": since,
        "changes": changes_since(user, runs, since, now),
        "week": time_view(time_of_all(runs, now, WEEK), "The last 7 days"),
        "may_act_in": may_act_in,
        "may_launch": bool(may_act_in),
    }
    if context["is_first_start"]:
        context["example"] = EXAMPLE.read_text()
    return show(request, "home/home.html", context, fragments={"home": "home/_home.html"})


def _rows(parts: Sequence[tuple[QuerySet[Run], int]], user: Someone, now: datetime) -> list[list[Row]]:
    """Return the rows of each query's first runs. A run may be in several, and all are read together."""
    lists = first_rows_together(visible_runs(user).select_related(None), parts)
    runs = {run.pk: run for part in lists for run in part}
    made = {row.run.pk: row for row in coloured(user, rows(list(runs.values()), now=now))}
    return [[made[run.pk] for run in part] for part in lists]


@page(get=SIGNED_IN)
def mlflow_link(request: HttpRequest) -> HttpResponse:
    """Where the links lead that MLflow's client prints. Only the browser knows the run, behind the ``#``: app.js."""
    return redirect("home")


@page(post=thing(Permission.RUNS_LAUNCH))
def launch_example(request: HttpRequest) -> HttpResponse:
    user = person(request)
    names = [project.name for project in projects_with(user, Permission.RUNS_LAUNCH)]
    document = yaml.safe_load(EXAMPLE.read_text())
    if names and document["project"] not in names:
        document["project"] = names[0]
    clusters = list(Cluster.objects.filter(projects__name=document["project"]).values_list("name", flat=True))
    if clusters and document["cluster"] not in clusters:
        document["cluster"] = clusters[0]
    run = submit_run(actor=user, document=document)
    return answer(request, f"Launched {run.name}.", to=reverse("run", args=(run.pk,)))


# Runs and nodes that need a person, each with the reason in one line and the one action that helps.

LATELY = timedelta(hours=24)
WAITS_LONG = timedelta(minutes=10)
MAX_NAMED = 4  # nodes of a cluster
SEVERITY = ("red", "rust", "amber", "grey")


# Clusters with their nodes and how full they are: read at once, whatever their number.


class Machines(NamedTuple):
    cluster: Cluster
    nodes: Sequence[Node]


def machines_of(user: Someone) -> list[Machines]:
    clusters = list(visible_clusters(user).defer("settings", "secrets", "labels", "log_rules"))
    nodes = grouped((node.cluster_id, node) for node in nodes_of(clusters).defer(*UNREAD))
    return [Machines(cluster, nodes.get(cluster.pk, ())) for cluster in clusters]


def cluster_lines(user: Someone, machines: Sequence[Machines], now: datetime) -> list[dict[str, object]]:
    """Return each cluster with its load: slots held, free on nodes in contact, and runs that wait."""
    clusters = [one.cluster.pk for one in machines]
    slots = HeldSlot.objects.filter(node__cluster__in=clusters).order_by()
    held = Counter(pk for pk, *_ in slots.values_list("node__cluster", "node", "index").distinct())
    queued = visible_runs(user).filter(status=Status.QUEUED, cluster__in=clusters).order_by()
    waiting = dict(queued.values_list("cluster").annotate(num=Count("pk")))
    known, made = contact_time(now), []
    for cluster, all_nodes in machines:
        here = [node for node in all_nodes if node.is_in_contact(known)]
        line = {
            "cluster": cluster,
            "num_nodes": len(all_nodes),
            "num_away": len(all_nodes) - len(here),
            "num_draining": sum(node.is_draining for node in all_nodes),
            "slots": sum(node.slots for node in all_nodes),
            "held": held[cluster.pk],
            "free": max(0, sum(node.slots for node in here if not node.is_draining) - held[cluster.pk]),
            "waiting": waiting.get(cluster.pk, 0),
        }
        made.append(line)
    return made


def limit_notices(user: User, since: datetime | None, now: datetime) -> list[tuple[Project, LimitNotice]]:
    """What came since then of limits that are nearly used, of the person's projects as their owner."""
    own, first = projects_with(user, Permission.OWNERS_MANAGE).exclude(limit_notices={}), since or now - LONGEST
    return [(project, one) for project in own for one in project.notices.values() if one.at > first]


class Need(NamedTuple):
    row: Row
    sentence: str
    colour: str
    verb: str  # a verb of run_verbs, or "" where looking is what helps
    label: str


class Away(NamedTuple):
    """Nodes of a cluster that are out of contact and that nobody drains."""

    cluster: Cluster
    nodes: list[Node]
    names: str
    sentence: str
    since: datetime | None  # the last word of any of them

    @property
    def url(self) -> str:
        """The page of the one node, else of all clusters."""
        return reverse("node", args=(self.nodes[0].pk,)) if len(self.nodes) == 1 else reverse("clusters")


def troubled_runs(runs: QuerySet[Run], now: datetime) -> QuerySet[Run]:
    """Live runs whose row says that they need a person, the longest first, however many others there are."""
    waits_long = one_of("status", [Status.QUEUED]) & Q(created_at__lt=now - WAITS_LONG)
    is_troubled = one_of("status", [Status.LOST, Status.RECOVERING]) | waits_long
    return runs.filter(is_troubled, is_none("local_id"), ended_at=None).order_by("created_at", "pk")


def away_nodes(machines: Sequence[Machines], now: datetime) -> list[Away]:
    """Nodes that do not answer, by cluster. A drained node may be switched off, and of one that an engine brought its
    run says what is missing."""
    known = contact_time(now)
    found = [(one.cluster, [node for node in one.nodes if _is_away(node, known)]) for one in machines]
    return [_away(cluster, nodes) for cluster, nodes in found if nodes]


def _is_away(node: Node, known: datetime) -> bool:
    return not node.is_draining and node.kind == Node.Kind.STAYS and not node.is_in_contact(known)


def _away(cluster: Cluster, nodes: list[Node]) -> Away:
    names = [node.name for node in nodes]
    seen = [node.seen_at for node in nodes if node.seen_at is not None]
    shown = listed(names, at_most=MAX_NAMED)
    them = "it" if len(nodes) == 1 else "them"
    sentence = f"Out of contact with the server: nothing is started on {them}." if seen else "Never in contact so far."
    return Away(cluster, nodes, shown, sentence, max(seen, default=None))


def idle_runs(runs: QuerySet[Run], user: User) -> QuerySet[Run]:
    """The person's own that idle, and those of projects of which they are an owner."""
    own = Q(created_by=user) | Q(project__in=projects_with(user, Permission.OWNERS_MANAGE))
    marked = Attempt.objects.filter(ended_at=None, idle__isnull=False, run__status=Status.RUNNING)
    return runs.filter(own, pk__in=marked.values("run")).order_by("created_at", "pk")


def needs_of(live: list[Row], failed: list[Row], idle: list[Row], now: datetime) -> list[Need]:
    found = [
        Need(row, row.run.reason_sentence, "red", *(("", "") if row.run.is_local else ("restart", "Restart")))
        for row in failed
    ]
    found += [need for row in live if (need := _need(row, now)) is not None]
    idle = [row for row in idle if row not in [need.row for need in found]]
    found += [Need(row, row.idle.sentence, "amber", "stop", "Stop") for row in idle if row.idle]
    return sorted(found, key=lambda need: SEVERITY.index(need.colour))


def _need(row: Row, now: datetime) -> Need | None:
    run = row.run
    if run.is_local:  # its end comes with the next sync, or never: nothing to be alarmed about
        return None if run.status == Status.RUNNING else Need(row, run.reason_sentence, "grey", "give-up", "Give up")
    if run.status == Status.LOST:
        return Need(row, run.reason_sentence, "rust", "give-up", "Give up")
    if run.status == Status.RECOVERING:
        return Need(row, run.reason_sentence, "amber", "", "")
    if run.status == Status.QUEUED and now - run.created_at > WAITS_LONG:
        return Need(row, run.reason_sentence, "grey", "stop", "Cancel")
    for lamp in row.lamps:
        if run.status == Status.RUNNING and lamp["colour"] == "red":
            return Need(row, lamp["sentence"], "amber", "", "")
    return None
