"""Placing the queue of a cluster, under a lock on the rows of the cluster and of projects that have limits."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain

import structlog
from django.core.cache import cache
from django.db import IntegrityError, transaction
from django.db.models import Q

from runs.engines import engine_of
from runs.life.preflight.beforehand import check_beforehand
from runs.life.preflight.rounds import record_placed
from runs.life.preflight.vetting import Vetted, place_vetted
from runs.life.reconcile.desired import wanted_of_placement, write_desired
from runs.life.reconcile.listening import Listener
from runs.life.reconcile.saved import Round, SavedQueue, placed_sentence
from runs.models import Attempt, Cluster, HeldSlot, Node, Placement, Run
from runs.models.runs import StaleStatus
from runs.placing.admission import limited, terms_of
from runs.placing.conditions import hopeless
from runs.placing.fitting import Placed, Waiting, could_ever_fit, has_room
from runs.placing.planning import would_travel
from runs.placing.policies import policy_of
from runs.placing.queue import Ahead, holds_of, request_of, requests_of, waiting_runs, with_times
from runs.placing.recovering import Recovering, recovering_runs
from runs.placing.scheduling import place
from runs.placing.spans import Span
from runs.placing.usage import standings_of
from runs.recovery.failing import Elsewhere
from runs.serving import broadcast
from runs.values.columns import FirstPrediction, StartPrediction
from runs.values.status import Reason, Status
from trainyard.contract.base import to_builtins
from trainyard.formats.words import listed
from trainyard.grouping import grouped
from trainyard.spec.sections.restarts import RestartRules

log = structlog.get_logger(__name__)

PREDICTED_EVERY_S = 5
SHIFT_S, SHIFT = 20.0, 0.05  # of the wait: a prediction that moves by less than the larger of both is left
RUNS_AT_ONCE = 500  # of which a reason is written: SQLite's transactions are short, for others write too


def schedule(cluster_id: str, now: datetime) -> None:
    """Place what can be placed of the cluster's queue, and write down why the rest waits."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None:
        return
    for run, sentence in hopeless(cluster):
        with suppress(StaleStatus):
            run.move_to(Status.CANCELLED, code="dependency", sentence=sentence)
    placed: list[Placement] = []
    _, vetted = _play(cluster, now)  # outside the lock: most rounds place nothing
    if any(isinstance(answer, Placed) for answer in vetted.answers):
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=cluster_id)
            # Limits hold over all clusters: another one that is placed at this instant waits here. Runs may be made
            # meanwhile (no_key), and rows are locked in one order, so that nobody waits for each other.
            list(limited().select_for_update(no_key=True).order_by("pk").values_list("pk"))
            _, vetted = _play(cluster, now)
            for answer in vetted.answers:
                if isinstance(answer, Placed):
                    placed += _write(answer, vetted.sentence_for(answer.run))
        _start(cluster, placed, now)
    if vetted.to_check:
        check_beforehand(cluster, vetted.to_check, now)
    _write_reasons(cluster, [answer for answer in vetted.answers if isinstance(answer, Waiting)])


def elsewhere(attempt: Attempt, placements: Sequence[Placement], excluded: frozenset[str], now: datetime) -> Elsewhere:
    """Return whether the nodes of the attempt's cluster could hold its run again without some (ids)."""
    cluster = attempt.run.cluster
    if cluster is None:
        return Elsewhere(ever=True, now=True)
    rooms = [room for room in engine_of(cluster).capacity(cluster, now) if room.node not in excluded]
    request = request_of(attempt.run_id, attempt.run.spec)
    own = {one.node_id: one.num_ranks for one in placements}
    return Elsewhere(ever=could_ever_fit(request, rooms), now=has_room(request, rooms, own))


def claimant(cluster: Cluster, now: datetime) -> str | None:
    """Return the run that waits for room first; None where nobody does."""
    waiting = (answer for answer in _play(cluster, now)[1].answers if isinstance(answer, Waiting) and answer.has_claim)
    return next((answer.run for answer in waiting), None)


def is_claimed(cluster: Cluster, now: datetime) -> bool:
    """Return whether somebody waits for free slots of the cluster, or is about to get some."""
    return any(isinstance(answer, Placed) or answer.has_claim for answer in _play(cluster, now)[1].answers)


def _play(cluster: Cluster, now: datetime) -> tuple[Round, Vetted]:
    """Return what a round goes by, and its answers. Where nobody waits, nothing is read."""
    recovering = Recovering(recovering_runs(cluster), now)
    found = Round(cluster.name, cluster.scheduling, recovering.requests, requests_of(waiting_runs(cluster)))
    if not found.again and not found.queue:
        return found, Vetted([])
    standings = standings_of(cluster, now, reads_used=policy_of(cluster.scheduling).reads_used)
    found = replace(found, terms=terms_of(cluster, now), standings=standings)
    requests, shut_out = found.admitted()
    rooms = engine_of(cluster).capacity(cluster, now) if requests else []
    if len(requests) > 1:  # one may wait, and another pass it
        requests, rooms = with_times(cluster, requests, rooms, now)
    vetted = place_vetted(requests, lambda ones: place(cluster.name, ones, rooms), now)
    lasts = {one.run: one.lasts_s for one in requests if one.lasts_s is not None}
    answers = [*recovering.checked(vetted.answers), *shut_out]
    return replace(found, rooms=rooms, lasts=lasts), replace(vetted, answers=answers)


def save_queue(cluster: Cluster, now: datetime) -> SavedQueue:
    """Return the round that would be played now as plain values."""
    found, vetted = _play(cluster, now)
    found = replace(found, rooms=found.rooms or engine_of(cluster).capacity(cluster, now))
    saved = SavedQueue(now.isoformat(), found, holds_of(cluster), vetted.left_out)
    plain = {one.run: one for one in saved.decided()}
    kept = {
        one.run: Reason(one.code, one.sentence or "Waiting until it is to start again.")
        for one in vetted.answers
        if isinstance(one, Waiting) and one.sentence != getattr(plain[one.run], "sentence", None)
    }
    return replace(saved, kept=kept)


def _write(placed: Placed, left_out: str = "") -> list[Placement]:
    """Make the attempt with its placements and slots. Another process may take the run or its slots first.
    ``left_out``: sentences about nodes that a check keeps it from."""
    try:
        with transaction.atomic():
            run = Run.objects.get(pk=placed.run)
            attempt, placements = _make_attempt(run, placed)
            nodes = [placement.node for placement in placements]
            rest = f"{_without_folder(run, attempt, placements)} {would_travel(run.spec, nodes)}".rstrip()
            names = [node.name for node in nodes]
            sentence = placed_sentence(names, run.node_counts, without=rest, left_out=left_out)
            run.move_to(Status.SCHEDULED, code="placed", sentence=sentence, attempt=attempt)
    except (StaleStatus, IntegrityError, ValueError, Run.DoesNotExist) as error:
        log.info("place.overtaken", run=placed.run, error=str(error))
        return []
    return placements


def _without_folder(run: Run, attempt: Attempt, placements: Sequence[Placement]) -> str:
    """Say of a script that is restarted on which nodes it does not find its working folder again."""
    if attempt.number == 1 or "script" not in run.spec.get("task", {}):
        return ""
    before = set(Placement.objects.filter(attempt__run=run).exclude(attempt=attempt).values_list("node_id", flat=True))
    new = [placement.node.name for placement in placements if placement.node_id not in before]
    if not new:
        return ""
    return (
        f" No attempt of it ran on {listed(new)} before: there its working folder begins with the code alone, without "
        "what the script saved. Snapshots in the folder that TRAINYARD_CHECKPOINTS names are found by every attempt."
    )


def _make_attempt(run: Run, placed: Placed) -> tuple[Attempt, list[Placement]]:
    nodes = {node.pk: node for node in Node.objects.filter(pk__in=[part.node for part in placed.parts])}
    attempt = Attempt.objects.create(
        run=run,
        number=run.attempts.count() + 1,
        fence=run.next_fence(),
        world_size=sum(len(part.slots) for part in placed.parts),
        lease_s=RestartRules.of(run.spec).lease_s,
    )
    placements = []
    first_rank = 0
    for node_rank, part in enumerate(placed.parts):
        node = nodes[part.node]
        placement = Placement.objects.create(
            attempt=attempt, node=node, node_rank=node_rank, first_rank=first_rank, num_ranks=len(part.slots)
        )
        HeldSlot.objects.bulk_create(
            HeldSlot(node=node, index=index, share=part.share, num_shares=part.num_shares, placement=placement)
            for index in part.slots
        )
        first_rank += len(part.slots)
        placements.append(placement)
    return attempt, placements


def _start(cluster: Cluster, placements: Sequence[Placement], now: datetime) -> None:
    """Write what is wanted of the nodes, and have them begin. Whatever fails here, the next tick does again."""
    if not placements:
        return
    # The nodes prepare it while their documents are written: a tenth of the time from a request to the first step.
    engine_of(cluster).start(placements, {placement.pk: wanted_of_placement(placement) for placement in placements})
    joined = [placement.node for placement in placements if placement.node.kind != Node.Kind.OFFERED]
    nodes = {node.pk: node for node in joined}
    listener = Listener(now, now.timestamp())
    listener.read_statuses(nodes.values())
    write_desired(nodes.values(), listener.statuses, now)
    record_placed(placements, now)  # nobody waits for it


def _write_reasons(cluster: Cluster, answers: Sequence[Waiting]) -> None:
    """Write the reasons that are others than before. It is no event: it would fill the runs' history."""
    known: dict[str, list[str]] = {}
    if answers:
        for runs in (waiting_runs(cluster), recovering_runs(cluster)):
            known |= {run: why for run, *why in runs.values_list("pk", "reason_code", "reason_sentence")}
    others = [one for one in answers if one.sentence and known.get(one.run) not in (None, [one.code, one.sentence])]
    changed = grouped(((one.code, one.sentence), one.run) for one in others)
    for (code, sentence), run_ids in changed.items():
        for start in range(0, len(run_ids), RUNS_AT_ONCE):
            rows = Run.objects.filter(pk__in=run_ids[start : start + RUNS_AT_ONCE])
            again = (Status.RECOVERING, Status.RESIZING)
            waiting = rows.filter(Q(status=Status.QUEUED) | Q(status__in=again, recover_at__isnull=False))
            waiting.update(reason_code=code, reason_sentence=sentence)
    if changed:
        broadcast.runs_changed(chain.from_iterable(changed.values()))


# Predicted starts, kept in the rows: what a run was told first is compared with what came of it.


def predict_starts(cluster_id: str, now: datetime) -> None:
    """Predict anew when the runs of the cluster's queue start, at most every few seconds."""
    if not cache.add(f"predicted-starts:{cluster_id}", True, PREDICTED_EVERY_S):
        return
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None:
        ahead = Ahead(cluster, engine_of(cluster).capacity(cluster, now), now)
        _write_predictions(cluster, ahead.starts(), ahead.lasts, now.timestamp())


def _write_predictions(
    cluster: Cluster, found: Mapping[str, tuple[Span, float]], lasts: Mapping[str, Span], now: float
) -> None:
    changed = []
    told = waiting_runs(cluster).filter(Q(pk__in=found) | Q(predicted_start__isnull=False))
    for run in told.only("pk", "predicted_start"):
        before, (span, played) = run.start_prediction, found.get(run.pk, (None, 0.0))
        if (span is None and before is None) or (span and before and _is_alike(before, span, now)):
            continue
        run.predicted_start = None
        if span is not None:
            times = now, now + span.expected, now + span.low, now + span.high
            first = (before and before.first) or FirstPrediction(*times, played)
            end = times[1] + lasts[run.pk].expected if run.pk in lasts else None
            run.predicted_start = to_builtins(StartPrediction(*times, first, end))
        changed.append(run)
    Run.objects.bulk_update(changed, ["predicted_start"], batch_size=200)
    if changed:
        broadcast.runs_changed([run.pk for run in changed])


def _is_alike(before: StartPrediction, span: Span, now: float) -> bool:
    most = max(SHIFT_S, SHIFT * span.expected)
    moved = (before.at - now - span.expected, before.low - now - span.low, before.high - now - span.high)
    return all(abs(one) <= most for one in moved)
