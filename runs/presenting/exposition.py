"""Numbers of the server, its clusters and runs as Prometheus and OpenMetrics take them, worked out at each scrape.

They are of the clusters and runs that a caller sees, or of all. Labels are names of clusters, states and
codes of reasons: there are no more than clusters times these.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import accumulate
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from redis import RedisError

from runs.models import Cluster, HeldSlot, Run
from runs.presenting import server_state
from runs.records.time_use.sums import WEEK, time_of_all
from runs.rights.access import Someone, nodes_of, visible_clusters, visible_runs
from runs.serving import open_sockets, request_counts, transport
from runs.values.status import FINAL, Status, WaitCode, Wanted
from trainyard.contract.seals import stream_key

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition:
    """What a registry of the client collects."""

    def __init__(self, clusters: QuerySet[Cluster], runs: QuerySet[Run], now: datetime) -> None:
        self._visible, self._runs, self._now = clusters, runs, now

    def text(self) -> bytes:
        found: bytes = generate_latest(self)  # type: ignore[no-untyped-call]  # the client has no types there
        return found

    def collect(self) -> Iterator[Metric]:
        state = server_state.look(asks_database=False)
        yield _by("ready", "Whether database, Valkey, control, ingest and disk work", (), {(): float(state.is_ready)})
        yield _by("disk_free_bytes", "Room on the server's disk", (), {(): state.free_bytes})
        if state.control_tick_age_s is not None:
            yield _by("control_tick_age_seconds", "Since control last worked", (), {(): state.control_tick_age_s})
        yield _by("dropped_messages", "In control's queue, not sealed by the server", (), {(): state.dropped_messages})
        if state.valkey:
            entries, lags = _backlog(self._now.timestamp())
            yield _by("stream_entries", "Sent by nodes, and not stored yet", ("shard",), entries)
            yield _by("ingest_lag_seconds", "Age of the oldest of those", ("shard",), lags)
            yield _by("sockets", "Open pages, of all webs", (), {(): open_sockets.total()})
            yield from _requests()
        yield from self._clusters()
        runs = self._runs.exclude(status__in=FINAL).order_by().values_list("status")
        counts = dict.fromkeys((one.value for one in Status if one not in FINAL), 0) | dict(runs.annotate(Count("pk")))
        yield _by("runs", "That have not ended", ("status",), {(name,): n for name, n in counts.items()})
        week = time_of_all(self._runs.filter(archived_at=None), self._now, WEEK)  # the home page's, which is kept
        yield _by("time_seconds", "Of the last 7 days", ("use",), {(use[:-2],): n for use, n in week.by_name().items()})
        yield _by("goodput_ratio", "Productive share of that", (), {} if week.goodput is None else {(): week.goodput})

    def _clusters(self) -> Iterator[Metric]:
        visible = list(self._visible)
        clusters, known_until = {one.pk: one.name for one in visible}, server_state.contact_time(self._now)
        nodes, slots = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for node in nodes_of(visible):
            name = clusters[node.cluster_id]
            state = "away" if not node.is_in_contact(known_until) else "draining" if node.is_draining else "in contact"
            nodes[name, state] += 1
            slots[name, "all"] += node.slots
        held = HeldSlot.objects.filter(node__cluster__in=clusters).values_list("node__cluster", "node", "index")
        slots.update((clusters[cluster], "held") for cluster, _, _ in set(held))
        queued = Run.objects.filter(cluster__in=clusters, status=Status.QUEUED, wanted=Wanted.RUN).order_by()
        queues = queued.values_list("cluster").annotate(Min("created_at"))
        reasons = queued.values_list("cluster", "reason_code").annotate(Count("pk"))
        yield _by("nodes", "By what control knows of them", ("cluster", "state"), nodes)
        yield _by("slots", "Of all nodes, and those that runs hold", ("cluster", "state"), slots)
        numbers = Counter[tuple[str, ...]]()
        for pk, code, number in reasons:  # another one stands there before control looks at a run that was queued again
            numbers[clusters[pk], code if code in {*WaitCode} else "queued"] += number
        waits: dict[tuple[str, ...], float] = {(clusters[pk],): (self._now - at).total_seconds() for pk, at in queues}
        yield _by("queued_runs", "That wait, by what for", ("cluster", "reason"), numbers)
        yield _by("queue_longest_wait_seconds", "Of a run that waits", ("cluster",), waits)


def exposition_for(user: Someone, now: datetime) -> Exposition:
    return Exposition(visible_clusters(user), visible_runs(user), now)


def _requests() -> list[Metric]:
    """Return nothing where Valkey is away: a counter that says 0 in between would count everything again."""
    with contextlib.suppress(RedisError, OSError):
        stored: Any = transport.redis().hgetall(request_counts.KEY)
        found = Counter({name.decode(): int(number) for name, number in stored.items()})
        answered = CounterMetricFamily("trainyard_requests", "Answered by all webs", labels=("status",))
        for name in request_counts.CLASSES:
            answered.add_metric((name,), found[name])
        sums = accumulate(found[name] for name in request_counts.BUCKETS)
        taken = list(zip(request_counts.BUCKETS, sums, strict=True)), found[request_counts.SUM] / 1e6
        return [answered, HistogramMetricFamily("trainyard_request_seconds", "Until an answer began", *taken)]
    return []


def _backlog(now: float) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float]]:
    """Return by shard how many entries wait, and how old the oldest is: its id begins with Unix milliseconds."""
    entries, lags = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
    with contextlib.suppress(RedisError, OSError):
        for shard in range(settings.INGEST_SHARDS):
            key, label = stream_key(shard), (str(shard),)
            oldest: Any = transport.redis().xrange(key, count=1)
            lags[label] = max(0.0, now - int(oldest[0][0].split(b"-")[0]) / 1000) if oldest else 0.0
            entries[label] = float(transport.redis().xlen(key))
    return entries, lags


def _by(name: str, words: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily:
    found = GaugeMetricFamily(f"trainyard_{name}", words, labels=labels)
    for key, value in sorted(values.items()):
        found.add_metric(key, value)
    return found
