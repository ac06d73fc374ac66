"""What lists are asked, and what each answer costs: `python -m benchmarks.load.list_requests 100 100000 10000`.

In a process of its own for each database, since Django is set up once. Prints one JSON object: for each number of runs,
request -> milliseconds of processor time, those of PostgreSQL's own processes included; and the ticks' seconds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import psutil

if TYPE_CHECKING:
    from django.test import Client

    from benchmarks.load.crowd import Crowd

TIMES = 15
DEEP = 0.7  # how far into a list a deep page lies
MEMBER, GUEST, ADMIN = "member", "guest", "admin"
FILTERS = {
    "all": "",
    "live": "&status=QUEUED&status=SCHEDULED&status=STARTING&status=RUNNING&status=RECOVERING",
    "failed": "&status=FAILED",
    "archived": "&archived=true",
    "a common tag": "&tag=baseline",
    "a scarce tag": "&tag=scarce",
    "a rare tag": "&tag=rare",
    "two tags": "&tag=baseline&tag=scarce",
    "no such tag": "&tag=nowhere",
    "common words": "&q=train",
    "a name": "&q=train-000777",
    "words of a tag": "&q=scarc",
    "no such words": "&q=nowhere",
}
COLUMN_FILTERS = {
    "summary": "summary.train/loss.min < 0.1",
    "spec": "train.learning_rate < 0.001 and status = FAILED",
    "config": "config.width > 100 and not config.seed > 1000",
    "no summary": "summary.train/loss.min > 9",
    "all three": "summary.train/loss.min < 1 or train.learning_rate = 1 or config.width = 64",
}
COLUMN_SORTS = (
    "summary.train/loss.min", "-train.learning_rate", "config.seed", "-config.width,summary.train/loss.min",
    "status,-summary.train/loss.min",
)  # fmt: skip
GROUPS = (["train.learning_rate"], ["status", "config.width"], ["user", "summary.train/loss.min"])
SORTS = ("-created_at", "created_at", "name", "-name", "status", "-status")
VIEWS = ("", "live", "succeeded", "failed", "archived")


def requests_of(crowd: Crowd) -> Iterator[tuple[str, str, str]]:
    """Yield (what, who asks, path)."""
    project = crowd.run.project.name
    for who in (ADMIN, MEMBER, GUEST):
        for sort in SORTS:
            yield f"API runs, {who}, {sort}", who, f"/api/v1/runs?sort={sort}"
            yield f"API runs, {who}, {sort}, deep", who, f"deep:/api/v1/runs?sort={sort}"
    for name, asked in FILTERS.items():
        for who, sort in ((ADMIN, "-created_at"), (MEMBER, "-created_at"), (MEMBER, "name"), (MEMBER, "status")):
            yield f"API runs, {who}, {sort}, {name}", who, f"/api/v1/runs?sort={sort}{asked}"
    for who in (ADMIN, MEMBER, GUEST):
        if who != GUEST:  # who does not see it
            yield f"API runs, {who}, of a project", who, f"/api/v1/runs?project={project}"
        for view in VIEWS:
            yield f"page runs, {who}, view {view or 'all'}", who, f"/runs/?view={view}"
        for words in ("train", "nowhere"):
            yield f"page runs, {who}, search for {words}", who, f"/runs/?q={words}"
        yield f"page runs, {who}, by tag", who, "/runs/?tag=scarce"
        yield f"page runs, {who}, by name", who, "/runs/?sort=name"
        yield f"page home, {who}", who, "/"
        yield f"palette, {who}", who, "/jump/?q=nowhere"
    for who in (ADMIN, MEMBER):
        for name, text in COLUMN_FILTERS.items():
            yield f"API columns, filter by {name}, {who}", who, f"/api/v1/runs?filter={quote(text)}"
        for sort in COLUMN_SORTS:
            yield f"API columns, sort by {sort}, {who}", who, f"/api/v1/runs?sort={quote(sort)}"
    yield from others(crowd)


def others(crowd: Crowd) -> Iterator[tuple[str, str, str]]:
    for who in (ADMIN, MEMBER, GUEST):
        yield f"API jobs, {who}", who, "/api/v1/jobs"
        yield f"API jobs, {who}, deep", who, "deep:/api/v1/jobs"
        yield f"page jobs, {who}", who, "/jobs/"
        yield f"API datasets, {who}", who, "/api/v1/datasets"
        yield f"page datasets, {who}", who, "/data/"
        yield f"API nodes, {who}", who, "/api/v1/nodes"
        yield f"API clusters, {who}", who, "/api/v1/clusters"
        yield f"page clusters, {who}", who, "/nodes/"
    yield "page job", MEMBER, f"/jobs/{crowd.job_id}/"
    yield "page dataset", MEMBER, f"/data/{crowd.dataset_id}/"
    yield "page datasets, search", MEMBER, "/data/?q=nowhere"
    yield "page jobs, search", MEMBER, "/jobs/?q=nowhere"
    yield "page people", MEMBER, "/people/"
    yield "page account", MEMBER, "/account/"
    yield "page launch", MEMBER, "/launch/"
    yield "API tokens", MEMBER, "/api/v1/tokens"
    yield "API tokens, deep", MEMBER, "deep:/api/v1/tokens"
    yield "API members", MEMBER, f"/api/v1/projects/{crowd.run.project_id}/members"
    yield "API events", MEMBER, f"/api/v1/runs/{crowd.run.pk}/events"
    yield "API events, deep", MEMBER, f"deep:/api/v1/runs/{crowd.run.pk}/events"
    for model in ("run", "attempt", "placement", "event", "job", "dataset", "node", "heldslot", "user", "token",
                  "membership"):  # fmt: skip
        yield f"admin {model}", ADMIN, f"/admin/runs/{model}/"
        yield f"admin {model}, search", ADMIN, f"/admin/runs/{model}/?q=nowhere"
        yield f"admin {model}, page 9", ADMIN, f"/admin/runs/{model}/?p=9"
    for model in ("telemetry", "series"):
        yield f"admin {model}", ADMIN, f"/admin/metrics/{model}/"
    yield "admin run, failed", ADMIN, "/admin/runs/run/?status__exact=FAILED"


def measure(crowd: Crowd, server: psutil.Process | None = None) -> dict[str, float]:
    clients = {name: signed_in(user) for name, user in
               ((ADMIN, crowd.admin), (MEMBER, crowd.member), (GUEST, crowd.guest))}  # fmt: skip
    found = {}
    for by in GROUPS:
        found[f"groups by {', '.join(by)}"] = cost_ms(partial(grouped, crowd.admin, by), server)
    for what, who, path in requests_of(crowd):
        client = clients[who]
        while client.get(path.removeprefix("deep:")).status_code == 503:
            time.sleep(0.1)  # a column is being made
        if path.startswith("deep:"):
            path = deep(client, path.removeprefix("deep:"))
        found[what] = cost_ms(lambda client=client, path=path: client.get(path), server)  # type: ignore[misc]
    return found


def grouped(user: Any, by: list[str]) -> None:
    from runs.finding.columns import groups
    from runs.finding.index import Building
    from runs.presenting.listing import find_runs

    while True:
        try:
            assert groups(find_runs(user), by, ["summary.train/loss.min"])
            return
        except Building:
            time.sleep(0.1)


def signed_in(user: Any) -> Client:
    from django.test import Client

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(user)
    return client


def deep(client: Client, path: str) -> str:
    """The address of a page far down in a list: with a cursor as the list itself would make it there."""
    from runs.api import paging
    from runs.models import Event, Job, Run, Token

    answer = client.get(path).json()
    kind = next(model for word, model in
                (("/events", Event), ("/jobs", Job), ("/tokens", Token), ("/runs", Run)) if word in path)  # fmt: skip
    sort = path.partition("sort=")[2] or ("at" if kind is Event else "-created_at")
    field = sort.lstrip("-")
    if not answer["items"]:  # of few runs a guest may see none
        return path
    rows: Any = kind._default_manager.order_by(field, "pk")
    row = rows[int(rows.count() * (1 - DEEP if sort.startswith("-") else DEEP))]
    return f"{path}{'&' if '?' in path else '?'}cursor={quote(paging.cursor_at(getattr(row, field), row.pk))}"


def cost_ms(ask: Callable[[], Any], server: psutil.Process | None) -> float:
    """The middle of several requests' processor time. A server's own is a mean: its clock ticks every 10 ms."""
    answer = ask()
    if answer is not None and answer.status_code >= 400:
        raise SystemExit(f"{answer.request['PATH_INFO']}: {answer.status_code} {answer.content[:500]!r}")
    before, taken = used_s(server), []
    for _ in range(TIMES):
        start = time.process_time()
        ask()
        taken.append(time.process_time() - start)
        if sum(taken) > 3:
            break
    return 1_000 * (statistics.median(taken) + (used_s(server) - before) / len(taken))


def used_s(server: psutil.Process | None) -> float:
    """The processor time that a server took with those of its processes that have ended."""
    if server is None:
        return 0.0
    total = 0.0
    for one in [server, *server.children()]:
        try:
            times = one.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    times = server.cpu_times()
    return total + float(times.children_user + times.children_system)


def open_site() -> None:
    """Set Django up with the databases of the environment, and pages that need no collected files."""
    from dashboard.up.database import open_database, set_up_django

    set_up_django()
    from django.conf import settings

    settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
    open_database()


def tidy() -> None:
    """Give the planner statistics of the rows: PostgreSQL's autovacuum does so in time; for SQLite nothing of Trainyard
    does, so a home without them may be planned otherwise."""
    from django.db import connections

    for connection in connections.all():
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "PRAGMA optimize")


def tick_costs(pending: int, server: psutil.Process | None) -> dict[str, float]:
    """Seconds of processor time of a tick without pending runs, of the first over many, and of a later one."""
    from benchmarks.load.crowd import fill_queue
    from benchmarks.metrics_stack import broker

    with broker():
        empty = tick_s(server)
        fill_queue(pending)
        tidy()
        return {"empty": empty, "first": tick_s(server, times=1), "later": tick_s(server)}


def tick_s(server: psutil.Process | None, times: int = 5) -> float:
    from django.utils import timezone

    from runs.life.reconcile.loop import tick

    before, start = used_s(server), time.process_time()
    for _ in range(times):
        assert tick(timezone.now())
    return (time.process_time() - start + used_s(server) - before) / times


def main(small: int, large: int, pending: int, server: psutil.Process | None) -> dict[str, dict[str, float]]:
    from benchmarks.load.crowd import fill

    open_site()
    found = {"tick": tick_costs(pending, server)}
    for size in (small, large):
        crowd = fill(size, name=f"crowd-{size}")
        tidy()
        measure(crowd, server)  # once for what is only loaded at the first request
        found[str(size)] = measure(crowd, server)
    return found


if __name__ == "__main__":
    pid = os.environ.get("BENCH_SERVER")
    small, large, pending = (int(word) for word in sys.argv[1:4])
    print(json.dumps(main(small, large, pending, psutil.Process(int(pid)) if pid else None)))
