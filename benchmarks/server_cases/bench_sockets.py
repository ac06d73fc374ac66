"""A thousand sockets on one web process: twenty runs step five times a second, fifty people watch each of them.

What is sent is committed as ingest commits it, and pushed as ingest pushes it. A delivery is timed from its publishing
until it is read by the process that holds all the sockets. The limit is a bare hop: a process that listens to the
channel layer and does nothing else, in the same run.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks import goals
from benchmarks.load.flow import program
from benchmarks.load.listen import Plan
from benchmarks.metrics_stack import MetricsStack, metrics_stack, wait_for_line
from benchmarks.stack import percentile
from benchmarks.table import Row, scaled
from tests.frames import encode

if TYPE_CHECKING:
    from runs.models import Run

NUM_SOCKETS, NUM_RUNS, NUM_PEOPLE = 1_000, 20, 100
NUM_METRICS = 10
HZ, SECONDS = 5, 20
AT_ONCE = 5  # runs in one transaction

Times = dict[tuple[int, int], float]  # (run's number, cursor): when it was published
Received = list[list[Any]]


def rows() -> list[Row]:
    num_sockets = scaled(NUM_SOCKETS, NUM_RUNS)
    with metrics_stack() as place, web(place) as (process, port):
        runs = [place.make_run(f"bench-{number}") for number in range(NUM_RUNS)]
        tokens = people(scaled(NUM_PEOPLE))
        sockets = [
            (f"/ws/runs/{runs[number % NUM_RUNS].pk}/", tokens[number // NUM_RUNS % len(tokens)])
            for number in range(num_sockets)
        ]
        hop_plan: Plan = {"groups": [f"run.{run.pk}" for run in runs]}
        plan: Plan = {"host": "127.0.0.1", "port": port, "sockets": sockets}
        with listening(place, "hop", hop_plan) as hop, listening(place, "sockets", plan) as listeners:
            before, started_at = sum(process.cpu_times()[:2]), time.monotonic()
            published = publish(runs)
            seconds = time.monotonic() - started_at
            cores = (sum(process.cpu_times()[:2]) - before) / seconds
            bare, received = hop(), listeners()
        memory = process.memory_full_info().pss / 2**20
    latencies = ages(published, received)
    lost = num_lost(published, received, num_sockets)
    theirs = ages(published, bare)
    note = f"{len(received) / seconds:,.0f} deliveries/s, {cores:.2f} of a core of the web process, {memory:.0f} MiB"
    what = f"{num_sockets:,} sockets on one web process"
    against = "a bare hop through the channel layer"
    return [
        Row(f"{what}: delivery, p99", 1e3 * percentile(latencies, 0.99), "ms", 1e3 * percentile(theirs, 0.99),
            against, goal=goals.SOCKETS_P99, spread=(1e3 * min(latencies), 1e3 * max(latencies)), note=note),
        Row(f"{what}: delivery, median", 1e3 * percentile(latencies, 0.5), "ms", 1e3 * percentile(theirs, 0.5),
            against),
        Row(f"{what}: deliveries lost", lost, "of " + f"{num_sockets // NUM_RUNS * len(published):,}", None, "none",
            goal=goals.SOCKETS_LOST),
    ]  # fmt: skip


@contextmanager
def web(place: MetricsStack) -> Iterator[tuple[psutil.Process, int]]:
    """The web process as `up` starts it, and its port."""
    from dashboard.up import programs
    from dashboard.up.checks import listen

    listener = listen("127.0.0.1", 0)
    listener.set_inheritable(True)
    found = programs.web(listener)
    with (place.home / "web.log").open("wb") as log:
        server = subprocess.Popen(found.command, stdout=log, stderr=log, pass_fds=[listener.fileno()])
    port = int(listener.getsockname()[1])
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
            one.sendall(b"GET /sign-in/ HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            assert one.recv(100), (place.home / "web.log").read_text()
        yield psutil.Process(server.pid), port
    finally:
        server.terminate()
        server.wait(timeout=30)
        listener.close()


def people(count: int) -> list[str]:
    """Make so many people who see the project, and return a token of each."""
    from runs.actions import create_token
    from runs.models import Membership, Project, Role, User

    tokens = []
    for number in range(count):
        person = User.objects.create(username=f"watcher-{number}")
        Membership.objects.create(project=Project.objects.get(name="default"), user=person, role=Role.VIEWER)
        tokens.append(create_token(actor=person, name="benchmarks")[1])
    return tokens


@contextmanager
def listening(place: MetricsStack, name: str, plan: Plan) -> Iterator[Callable[[], Received]]:
    """A listening process; call what it yields to have everything that was received."""
    path = place.home / f"{name}.json"
    path.write_text(json.dumps(plan))
    with program("listen", str(path)) as process:
        wait_for_line(process, "ready")

        def received() -> Received:
            assert process.stdin is not None
            process.stdin.write("enough\n")
            process.stdin.flush()
            wait_for_line(process, "done")
            found: Received = json.loads(path.read_text())
            return found

        yield received


def publish(runs: list[Run]) -> Times:
    """Commit and push a step of each run in each fifth of a second, a few runs in one transaction as ingest does."""
    from django.conf import settings
    from django.db import transaction

    from runs.ingest.commit import REST, Source, commit
    from runs.ingest.push import Push
    from runs.ingest.validation.records import incoming

    push, producer, published = Push(), uuid.uuid4().hex, {}
    begin, pause = time.monotonic(), AT_ONCE / len(runs) / HZ
    for number_of_round in range(scaled(SECONDS * HZ, 2 * HZ) * len(runs) // AT_ONCE):
        time.sleep(max(0.0, begin + number_of_round * pause - time.monotonic()))
        step, first = divmod(number_of_round * AT_ONCE, len(runs))
        with transaction.atomic(using=settings.METRICS_DATABASE):
            for run in runs[first : first + AT_ONCE]:
                batch = incoming(points_frame(producer, step))
                push.add(commit(run.pk, fence=1, source=Source(role=REST), batch=batch))
        now = time.time()
        published.update({(number, step + 1): now for number in range(first, first + AT_ONCE)})
        push.flush(time.monotonic())
    return published


def points_frame(producer: str, step: int) -> bytes:
    """One log call of ten metrics."""
    names = [f"train/metric_{metric}" for metric in range(NUM_METRICS)]
    values = struct.pack(f"<{NUM_METRICS}d", *(step * 0.1 + metric for metric in range(NUM_METRICS)))
    group = [{}, names, struct.pack("<q", step), struct.pack("<d", time.time()), values]
    return encode({"p": producer, "q": step + 1, "t": "points", "g": [group]})


def ages(published: Times, received: Received) -> list[float]:
    """Return how old each message was, in seconds, when it was received."""
    return [at - published[who % NUM_RUNS, cursor] for who, _, cursor, at in received]


def num_lost(published: Times, received: Received, num_sockets: int) -> int:
    """Return how many batches were not received, over all sockets; one that comes twice or late counts as well."""
    last = {number: max(cursor for run, cursor in published if run == number) for number in range(NUM_RUNS)}
    at = dict.fromkeys(range(num_sockets), 0)
    lost = 0
    for who, start, cursor, _ in received:
        lost += abs(start - at[who])
        at[who] = cursor
    return lost + sum(abs(last[who % NUM_RUNS] - cursor) for who, cursor in at.items())


if __name__ == "__main__":
    from benchmarks.__main__ import main

    sys.exit(main([Path(__file__).stem.removeprefix("bench_")]))
