"""Runs whose accelerators are hardly used: a rule on what was measured, and what their cluster's settings have follow.

Nothing is claimed of time that was not measured. A run that starts, restores, downloads or saves is at work.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from runs.life import stopping
from runs.models import Attempt, Cluster
from runs.models.runs import StaleStatus
from runs.records.metrics.models import Checkpoint
from runs.records.metrics.progress import node_history
from runs.records.points import read
from runs.records.time_use.sums import first_step_at
from runs.rights.audit.facts import Act
from runs.rights.audit.recording import OK, record
from runs.serving import broadcast
from runs.values.columns import IdleMark
from runs.values.status import TransitionError
from trainyard.contract.base import to_builtins
from trainyard.formats.figures import percent
from trainyard.formats.words import counted
from trainyard.spec.values.durations import words_of

SERIES = {"gpu": ("GPU", "system/gpu_utilization"), "cpu": ("CPU slot", "system/rank_cpu_percent")}
POINTS = 240
GAP_S = 60.0  # without a measurement for longer nobody knows
BUSY_BYTES_PER_S = 10e6  # that a node sends or receives: it downloads, or saves to a storage

Array = NDArray[np.float64]
Span = tuple[float, float]  # Unix seconds


def mean_use(
    series: Sequence[tuple[Array, Array]], number: int, since: float, until: float, at_work: Sequence[Span] = ()
) -> float | None:
    """Return the mean use of so many accelerators between two Unix times, in percent, by times and values of each; None
    where one was not measured all the time. In the spans ``at_work`` they count as used in full."""
    gap_s = max(2 * (until - since) / POINTS, min(GAP_S, (until - since) / 3))
    found = []
    for times, values in series:
        inside = (times >= since) & (times <= until) & np.isfinite(values)
        at, used = times[inside], values[inside].clip(0.0, 100.0)
        if np.diff([since, *np.sort(at), until]).max() > gap_s:
            return None
        for start, end in at_work:
            used[(at >= start) & (at <= end)] = 100.0
        found.append(used.mean())
    return float(np.mean(found)) if len(found) >= number else None


def judged(use: float | None, known: IdleMark | None, cluster: Cluster, what: str, now: float) -> IdleMark | None:
    """Return the mark that a run has from now on, by the cluster's settings of now; None: it does not idle, or nobody
    knows. ``what``: on what it trains, in words. It is stopped once it has been marked for as long again."""
    if use is None or use >= cluster.idle_below or cluster.idle_action == "off":
        return None
    sentence, stops_at = use_words(use, cluster, what), None
    if cluster.idle_action == "stop":
        latest = now + 60 * cluster.idle_minutes
        stops_at = latest if known is None or known.stops_at is None else min(known.stops_at, latest)
        sentence += f" It is stopped at {datetime.fromtimestamp(stops_at, UTC):%H:%M} UTC unless that changes."
    return IdleMark(percent=use, since=known.since if known else now, stops_at=stops_at, sentence=sentence)


def use_words(use: float, cluster: Cluster, what: str) -> str:
    return f"Its {what} used {percent(round(use, 1) / 100)} over the last {words_of(60 * cluster.idle_minutes)}."


def look(attempt: Attempt, now: datetime) -> None:
    """Mark an attempt that idles, take its mark away, or have its run stopped, as its cluster says."""
    cluster, known, number = attempt.run.cluster, attempt.idle_mark, attempt.world_size
    if cluster is None or (cluster.idle_action == "off" and known is None):
        return
    kind, name = SERIES[attempt.placements.all()[0].node.accelerator]
    what = f"{kind} was" if number == 1 else f"{counted(number, kind)} were"
    use = None if cluster.idle_action == "off" else _use(attempt, cluster, name, now.timestamp())
    found = judged(use, known, cluster, what, now.timestamp())
    if found and found.stops_at is not None and found.stops_at <= now.timestamp():
        return _stop(attempt, cluster, use_words(found.percent, cluster, what), now)
    if (found and found.sentence) == (known and known.sentence):
        return None
    with transaction.atomic():
        attempt.idle = found and to_builtins(found)
        if not Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(idle=attempt.idle):
            return None
        if found is None:
            why = "" if use is None else f" {use_words(use, cluster, what)}"
            attempt.run.record("idle-over", f"It does not count as idle any more.{why}", attempt=attempt)
        elif known is None or (known.stops_at is None) != (found.stops_at is None):
            attempt.run.record("idle", found.sentence, data=to_builtins(found), attempt=attempt)
        transaction.on_commit(lambda: broadcast.run_changed(attempt.run_id))


def _use(attempt: Attempt, cluster: Cluster, name: str, until: float) -> float | None:
    since = until - 60 * cluster.idle_minutes
    if attempt.go_at is None or attempt.go_at.timestamp() > since:
        return None
    _, curves = read.curves({attempt.run_id: (since, until)}, [name], x="time", points=POINTS)
    own = [one for one in curves if one.attempt == attempt.fence]
    series = [(one.columns["time"], one.columns["value" if one.kind == "raw" else "mean"]) for one in own]
    use = mean_use(series, attempt.world_size, since, until)
    if use is None or use >= cluster.idle_below:
        return use
    return mean_use(series, attempt.world_size, since, until, list(_at_work(attempt, since, until)))


def _at_work(attempt: Attempt, since: float, until: float) -> Iterator[Span]:
    """Yield when a recipe had not begun its first step, ranks saved, and nodes of it sent or received much."""
    if attempt.run.steps is not None:
        yield since, first_step_at(attempt.run, attempt.fence) or until
    saved = Checkpoint.objects.filter(run_id=attempt.run_id, fence=attempt.fence, at__gte=since)
    yield from (
        (at - max(took or 0, stall or 0), at) for at, took, stall in saved.values_list("at", "took_s", "stall_s")
    )
    for placement in attempt.placements.all():
        stalls = [rank.stall for rank in placement.reported.ranks if rank.stall]
        yield from ((one.since, until) for one in stalls if one.phase == "checkpoint")
        for sample in node_history(placement.node_id, since=since, until=until, points=POINTS):
            if max(sample.network_received_bytes_per_s or 0, sample.network_sent_bytes_per_s or 0) > BUSY_BYTES_PER_S:
                yield sample.at - max((until - since) / POINTS, 2.0), sample.at


def _stop(attempt: Attempt, cluster: Cluster, use: str, now: datetime) -> None:
    run, rule = attempt.run, f"the rule of cluster {cluster.name} for idle runs"
    words = f"{use} By {rule} {stopping.what_follows(run, attempt)}."
    first = f"Stopped by {rule}, since {use[:1].lower()}{use[1:-1]}"
    act = Act(actor=f"cluster {cluster.name}", action="runs.stop", object=f"run {run.pk}", project=run.project.name)
    act.after, act.result = {act.object: {"reason": words}}, OK
    with suppress(StaleStatus, TransitionError), transaction.atomic():  # it has ended, or somebody has stopped it
        stopping.begin(run, attempt, why=stopping.IDLE, code="stopping", sentence=words, now=now, first_words=first)
        record(act)
