"""Small rows of the metrics database: cursors and watermarks of runs, facts of ranks, health of nodes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from django.conf import settings
from django.db import connections

from runs.records.metrics.bulk import marks, query
from runs.records.metrics.models import Fact, NodeSample, Producer, Telemetry
from trainyard.contract.base import BadDocument, JsonObject, convert
from trainyard.contract.machines import HealthSample
from trainyard.contract.records import MetricRule

# Django's own atomic() would take SQLite's write lock (transaction_mode IMMEDIATE) and see each statement's own moment
# on PostgreSQL.
METRIC_RULES = "metric-rules"  # name of facts: {metric: MetricRule}
BEGIN = {"sqlite": "BEGIN DEFERRED", "postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
MAX_SAMPLES = 20_000  # more than a day of one every five seconds
MAX_FACTS = 10_000

T = TypeVar("T")


def telemetry(run_ids: Sequence[str]) -> dict[str, Telemetry]:
    """Return what is known of each run; a run that never reported has an empty, unsaved row."""
    known = Telemetry.objects.in_bulk(list(run_ids))
    return {run_id: known.get(run_id) or Telemetry(run_id=run_id) for run_id in run_ids}


def cursor_of(run_id: str) -> int:
    """Return the number of batches that were committed for the run."""
    return Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0


def cursors_of(run_ids: Sequence[str]) -> dict[str, int]:
    """Return how many batches of each run were committed; 0 for one that never reported."""
    sql = f"SELECT run_id, cursor FROM metrics_telemetry WHERE run_id IN ({marks(len(run_ids))})"
    return dict.fromkeys(run_ids, 0) | dict(query(sql, run_ids))


def watermarks(run_id: str) -> dict[str, int]:
    """Return {producer: longest committed prefix} of every producer of the run."""
    return dict(Producer.objects.filter(run_id=run_id).values_list("producer", "watermark"))


def is_complete(run_id: str, producers: dict[str, int]) -> bool:
    """Return whether all frames arrived, by the producers' own counts."""
    stored = watermarks(run_id)
    return all(stored.get(producer, 0) >= last for producer, last in producers.items())


# Facts that ranks reported about their run: documents by name, the newest of each attempt and rank.


class ReportedFact(NamedTuple):
    name: str
    data: JsonObject
    at: float


def write_facts(run_id: str, *, attempt: int, items: Iterable[tuple[int, ReportedFact]]) -> int:
    """Store facts of ranks of ``attempt`` (a fence), the last of each name and rank; return how many had no room."""
    newest = {(one.name, rank): one for rank, one in items}
    room = MAX_FACTS - Fact.objects.filter(run_id=run_id).count()
    num_lost = 0
    for (name, rank), one in newest.items():
        values = {"data": one.data, "at": one.at}
        if Fact.objects.filter(run_id=run_id, attempt=attempt, name=name, rank=rank).update(**values):
            continue
        if room <= 0:
            num_lost += 1
            continue
        Fact.objects.create(run_id=run_id, attempt=attempt, name=name, rank=rank, **values)
        room -= 1
    return num_lost


def facts_of(run_id: str, name: str, kind: type[T], *, attempt: int | None = None) -> dict[int, T]:
    """Return by rank what was reported under ``name``: of that attempt (a fence), else of the newest with any. What is
    no ``kind`` is left out: a script may report anything."""
    found = Fact.objects.filter(run_id=run_id, name=name)
    if attempt is None:
        attempt = found.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    made = {}
    for rank, data in found.filter(attempt=attempt).order_by("rank").values_list("rank", "data"):
        with suppress(BadDocument):
            made[rank] = convert(data, kind)
    return made


def stated_goal(run_ids: Sequence[str], metric: str) -> bool | None:
    """Return whether more of the metric is better, as the scripts of these runs said; None where none did, or they
    differ."""
    told = {rule.goal == "max" for rules in _stated(run_ids) if (rule := rules.get(metric)) is not None and rule.goal}
    return told.pop() if len(told) == 1 else None


def stated_axes(run_ids: Sequence[str]) -> dict[str, str]:
    """Return over which other metric each is drawn, as the scripts of these runs said; not where they differ."""
    told = [(metric, rule.x) for rules in _stated(run_ids) for metric, rule in rules.items()]
    found = dict(told)
    return {metric: x for metric, x in found.items() if x and all(x == other for name, other in told if name == metric)}


def _stated(run_ids: Sequence[str]) -> Iterator[dict[str, MetricRule]]:
    for data in Fact.objects.filter(name=METRIC_RULES, run_id__in=run_ids).values_list("data", flat=True):
        with suppress(BadDocument):
            yield convert(data, dict[str, MetricRule])


# History of the health samples of nodes, thinned to what a small chart can show.


def node_history(node_id: str, *, since: float, until: float, points: int = 120) -> list[HealthSample]:
    """Return at most ``points`` samples between two Unix times, oldest first.

    The range is cut into equal pieces, and each piece that has samples shows its last one.
    """
    rows = NodeSample.objects.filter(node_id=node_id, at__gte=since, at__lte=until).order_by("-at")
    width = max(1e-9, (until - since) / points)
    kept: dict[int, int] = {}
    for pk, at in rows.values_list("pk", "at")[:MAX_SAMPLES]:
        kept.setdefault(min(points - 1, int((at - since) / width)), pk)
    samples = []
    for row in NodeSample.objects.filter(pk__in=kept.values()).order_by("at"):
        with suppress(BadDocument):  # of an older version
            samples.append(convert({**row.health, "at": row.at}, HealthSample))
    return samples


# Reading several rows as of one moment, while ingest commits and compaction replaces what was read a moment ago.


@contextmanager
def snapshot() -> Iterator[None]:
    """Everything that is read inside is of one moment. Inside a transaction it is that transaction's."""
    connection = connections[settings.METRICS_DATABASE]
    if connection.in_atomic_block or getattr(connection, "is_snapshot", False):
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(BEGIN[connection.vendor])
        connection.is_snapshot = True  # type: ignore[attr-defined]
        try:
            yield
        finally:
            connection.is_snapshot = False  # type: ignore[attr-defined]
            cursor.execute("COMMIT")
