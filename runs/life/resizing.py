"""Elastic runs that change their number of nodes: when, why, and in which words.

A resize is an orderly end of the attempt, with a checkpoint behind its last step, and a new attempt from there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Count, F, Max, Min, Q, QuerySet

from runs.engines import brings_nodes, engine_of
from runs.life import stopping
from runs.models import Attempt, Cluster, Project, Run, User
from runs.models.runs import StaleStatus
from runs.placing.admission import parts_of
from runs.placing.changing import Change, Training, change_of, shared_out
from runs.placing.fitting import Room, has_needed
from runs.placing.policies import policy_of
from runs.placing.preempting import Concession, SlotHolder, askable, make_room
from runs.placing.queue import requests_of, waiting_runs
from runs.placing.speeds import Speed, speed_of
from runs.placing.usage import standings_of
from runs.records.metrics.models import Telemetry
from runs.values.refused import Refused
from runs.values.status import Status, TransitionError, Wanted
from trainyard.formats.words import counted, listed
from trainyard.spec.needs import needs_of
from trainyard.spec.sections.environment import has_container
from trainyard.spec.sections.restarts import RestartRules

log = structlog.get_logger(__name__)

AGAIN_S = 300.0  # nodes that a run grew onto in vain are tried again so much later
NO_STEPS_S = 30.0  # a run that logs no steps is not asked to grow sooner after its start
LEAST_STEPS, LEAST_S, MOVED = 5, 10.0, 0.05  # from which a speed is measured; the part by which another is news


def resize_runs(cluster: Cluster, now: datetime, is_claimed: Callable[[], bool]) -> list[Attempt]:
    """Begin to resize the runs of the cluster whose nodes are to change. Return their attempts.

    A node that has become free is taken when it has been free for a while, by one run at a time, and only while nobody
    else waits for it (``is_claimed``): by the one that gains most. A node that is drained is left at once.
    """
    elastic = _training(cluster).filter(run__node_counts__isnull=False).select_related("run__cluster", "run__project")
    attempts = list(elastic.prefetch_related("placements__node").order_by("run__created_at", "run"))
    if not attempts or brings_nodes(cluster):  # whose machines are there for their attempt alone
        return []
    rooms = engine_of(cluster).capacity(cluster, now)
    may_grow = not Run.objects.filter(cluster=cluster, status=Status.RESIZING).exists() and not is_claimed()
    measure(attempts)
    trainings = {one.run_id: training_of(one, rooms, now) for one in attempts}
    shared = shared_out([trainings[one.run_id] for one in attempts if _steps(one, now)], rooms) if may_grow else {}
    places = {run: place for place, run in enumerate(shared, 1)}  # those that do not grow come first
    changed: list[Attempt] = []
    for attempt in sorted(attempts, key=lambda one: places.get(one.run_id, 0)):
        training = trainings[attempt.run_id]
        most = max(shared.get(attempt.run_id, 0), len(training.nodes))
        training = replace(training, node_counts=tuple(one for one in training.node_counts if one <= most))
        change = change_of(training, rooms, may_grow=may_grow)
        if not _is_due(attempt, change, now):
            continue
        assert change is not None
        try:
            begin_change(attempt, change, now, speed=training.speed)
        except (StaleStatus, TransitionError) as error:  # somebody was faster
            log.info("resize.overtaken", run=attempt.run_id, error=str(error))
            continue
        changed.append(attempt)
        may_grow = False  # what it takes is not there for the next one
    return changed


def training_of(attempt: Attempt, rooms: list[Room], now: datetime) -> Training:
    run, nodes = attempt.run, tuple(one.node_id for one in attempt.placements.all())
    kinds = {room.node: room.accelerator for room in rooms}
    per_node, most = run.slots_per_node or 1, None
    if run.project.slots is not None or run.project.slots_per_person is not None:
        part = parts_of(Project.objects.filter(pk=run.project_id), now)[run.project.name]
        most = len(nodes) + (part.room(run.created_by_id) or 0.0) // per_node
    needs = needs_of(run.spec)
    level = needs.within if needs else ""
    own = {room.around(level) for room in rooms if room.node in nodes}
    unfit = [one.node for one in rooms if not has_needed(one, needs) or (level and one.around(level) not in own)]
    return Training(
        run=run.pk,
        nodes=nodes,
        node_counts=tuple(one for one in run.allowed_counts if most is None or one <= max(most, len(nodes))),
        slots_per_node=per_node,
        accelerator=next((kinds[node] for node in nodes if node in kinds), ""),
        left_out=frozenset([*unfit, *(one.node for one in run.restarts.left_out_at(now.timestamp()))]),
        in_container=has_container(run.spec),
        speed=speed_of(measured_sizes([run.pk])[run.pk]),
    )


def change_asked_for(attempt: Attempt, now: datetime, is_claimed: Callable[[], bool]) -> Change | None:
    """Return how the run can come nearer to what a person has asked for; None where it cannot now."""
    assert attempt.run.cluster is not None, "it has an attempt"
    rooms = engine_of(attempt.run.cluster).capacity(attempt.run.cluster, now)
    return change_of(training_of(attempt, rooms, now), rooms, may_grow=not is_claimed())


def begin_change(
    attempt: Attempt, change: Change, now: datetime, *, actor: User | None = None, before: str = "",
    speed: Speed | None = None,
) -> None:  # fmt: skip
    """Have the ranks save and end. ``before`` stands before the sentence. Raises what ``stopping.begin`` raises."""
    run, num_before = attempt.run, len(attempt.placements.all())
    expected = "" if speed is None else speed_sentence(run, speed, num_before, change.num_nodes)
    words = f"{before}{change_sentence(change, num_before)}.{expected} {ranks_do_sentence(run, attempt)}"
    stopping.begin(run, attempt, why=stopping.RESIZE, code="resizing", sentence=words, now=now, actor=actor)


def ranks_do_sentence(run: Run, attempt: Attempt) -> str:
    """Say what the ranks do before they end."""
    words = stopping.what_ranks_do(run, attempt)
    return f"{words[:1].upper()}{words[1:]}."


def _is_due(attempt: Attempt, change: Change | None, now: datetime) -> bool:
    """Return whether there is a change to make now: a growth waits until the room has been there for a while, and its
    ranks step."""
    room = f"{change.num_nodes}:{','.join(change.joining)}" if change and change.is_growth else ""
    if (attempt.growth["room"] if attempt.growth else "") != room:
        attempt.growth = {"room": room, "since": now.timestamp()} if room else None
        Attempt.objects.filter(pk=attempt.pk).update(growth=attempt.growth)
    if attempt.growth is None:
        return change is not None
    waited_s = now.timestamp() - attempt.growth["since"]
    return waited_s >= settings.RESIZE_SETTLE_S and _steps(attempt, now) and not _was_in_vain(attempt, room, now)


def _was_in_vain(attempt: Attempt, room: str, now: datetime) -> bool:
    """Return whether the attempt before was ended to grow onto the same nodes a while ago, and they were not had: a
    check may have kept the run off them."""
    before = attempt.run.attempts.filter(number__lt=attempt.number).order_by("-number").first()
    if before is None or before.ended_at is None or before.growth is None or before.growth["room"] != room:
        return False
    return now - before.ended_at < timedelta(seconds=AGAIN_S)


def _steps(attempt: Attempt, now: datetime) -> bool:
    """Return whether the attempt has got so far that a change costs it nothing that it has just begun."""
    if attempt.go_at is None:
        return False
    telemetry = Telemetry.objects.filter(pk=attempt.run_id, attempt=attempt.fence).exclude(step=None)
    return telemetry.exists() or now - attempt.go_at > timedelta(seconds=NO_STEPS_S)


# Sentences about a change of the number of nodes, for a run's history and page. Pure.


def change_sentence(change: Change, num_before: int) -> str:
    """Say why the run is resized, and to how many nodes."""
    names, what = (change.leaving, "drained") if change.leaving else (change.joining, "free")
    goes = goes_on(num_before, change.num_nodes)
    if not names:
        return f"T{goes[1:]}"
    return f"{f'Node {names[0]} is' if len(names) == 1 else f'Nodes {listed(names)} are'} {what}: {goes}"


def goes_on(num_before: int, number: int) -> str:
    """Say from how many nodes to how many."""
    if number == num_before:
        return f"the run moves, and stays on {counted(number, 'node')}"
    return f"the run {'grows' if number > num_before else 'shrinks'} from {num_before} to {counted(number, 'node')}"


# Refusals of a person's request to resize a run.

MAX_NAMED = 8


def refuse_resize(run: Run, nodes: int | None) -> None:
    """Raise Refused where the run cannot be resized, ValidationError for a number of nodes that it cannot have.
    ``nodes`` None: as many as its spec allows."""
    if run.is_local:
        raise Refused("logged-elsewhere", f"Run {run.name} was logged outside of Trainyard, which cannot resize it.")
    if run.is_final:
        raise Refused("already-ended", f"Run {run.name} has already ended: {run.status}.")
    if run.status == Status.STOPPING:
        raise Refused("stopping", f"Run {run.name} is being stopped or paused.")
    if not run.node_counts:
        fixed = run.spec["resources"]["nodes"]
        raise Refused(
            "not-elastic",
            f"Run {run.name} asks for just {fixed} node{'' if fixed == 1 else 's'}. Only a run whose "
            "resources.nodes is a range, such as {min: 1, max: 4}, is resized; continue this one as a new run instead.",
        )
    if nodes is not None and nodes not in run.node_counts:
        raise ValidationError({"nodes": _why_not(run, nodes)})


def _why_not(run: Run, nodes: int) -> str:
    counts: list[int] = run.node_counts or []
    shown = listed([str(number) for number in counts], at_most=MAX_NAMED)
    accepted = f"Run {run.name} trains on {shown} node{'' if counts == [1] else 's'}"
    if nodes < 1:
        return f"{accepted}, and {nodes} is no number of nodes."
    asked = run.spec["resources"]["nodes"]
    if nodes < asked["min"]:
        return f"{accepted}, and {nodes} is less than resources.nodes.min, which is {asked['min']}."
    if nodes > asked["max"]:
        return f"{accepted}, and {nodes} is more than resources.nodes.max, which is {asked['max']}."
    world = nodes * (run.slots_per_node or 1)
    batch = run.spec.get("train", {}).get("batch_size")
    if batch is not None and world > batch:
        return f"{accepted}: {nodes} nodes have {world} ranks, more than the {batch} samples of a batch."
    return f"{accepted}: its degrees or its batch do not divide among the {world} ranks of {nodes} nodes."


# Runs of lower priority, or on lent slots, make room for one that waits: they save first, and return by themselves.


def preemptable_clusters(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Return those of the clusters where a run waits, and one of lower priority trains, or one that has more than its
    least number of nodes, or its project is guaranteed slots."""
    return [cluster for cluster in clusters if _is_preemptable(cluster)]


def _is_preemptable(cluster: Cluster) -> bool:
    waiting, training = waiting_runs(cluster).order_by(), _training(cluster)
    first = waiting.aggregate(first=Max("priority"))["first"]
    last = training.aggregate(last=Min("run__priority"))["last"]
    if first is None or last is None:
        return False
    wide = training.annotate(nodes=Count("placements")).filter(nodes__gt=F("run__num_nodes"))
    return first > last or waiting.filter(project__guaranteed_slots__gt=0).exists() or wide.exists()


def preempt(cluster: Cluster, now: datetime, claimant: Callable[[], str | None]) -> list[Attempt]:
    """Have runs make room for ``claimant``, the first that waits. Return their attempts; none while others still do."""
    leaving = Q(status=Status.RESIZING) | Q(status=Status.STOPPING, wanted=Wanted.REQUEUE)
    if Run.objects.filter(leaving, cluster=cluster).exists() or (first := claimant()) is None:
        return []
    name = Run.objects.filter(pk=first).values_list("name", flat=True).first()
    (request,) = requests_of(Run.objects.filter(pk=first))
    attempts = {one.run_id: one for one in _attempts(cluster)}
    policy, standings = policy_of(cluster.scheduling), standings_of(cluster, now, reads_used=False)
    trained, spared_s = _holders(list(attempts.values()), now), 60 * cluster.spared_minutes
    holders = askable(request, trained, standings, asks_others=policy.asks_others, spared_s=spared_s)
    concessions = make_room(request, engine_of(cluster).capacity(cluster, now), holders)
    lent = {one.request.run for one in holders if not one.may_end}
    lower = {one.request.run for one in holders if one.request.priority < request.priority}
    speeds = {one.request.run: one.speed for one in holders}
    made = []
    for concession in concessions:
        try:
            why = f"Run {name} has a higher priority and needs nodes"
            if concession.run in lent:
                why = f"Run {name} waits, and needs nodes that were idle before"
            elif concession.run not in lower:
                why = f"Project {request.project} needs slots that it is guaranteed, for run {name}"
            _begin(attempts[concession.run], concession, why, now, speeds[concession.run])
        except (StaleStatus, TransitionError) as error:  # somebody was faster: the next round looks again
            log.info("preempt.overtaken", run=concession.run, error=str(error))
            continue
        made.append(attempts[concession.run])
    return made


def _begin(attempt: Attempt, concession: Concession, first: str, now: datetime, speed: Speed) -> None:
    run, num_before = attempt.run, len(attempt.placements.all())
    if concession.num_nodes:
        then = speed_sentence(run, speed, num_before, concession.num_nodes)
        words = f"{first}: {goes_on(num_before, concession.num_nodes)}.{then} {ranks_do_sentence(run, attempt)}"
        stopping.begin(run, attempt, why=stopping.RESIZE, code="resizing", sentence=words, now=now)
    else:
        words = f"{first}: {stopping.what_ranks_do(run, attempt)}. The run goes on when there is room again."
        stopping.begin(run, attempt, why=stopping.PREEMPTED, code="making-room", sentence=words, now=now)


def _training(cluster: Cluster) -> QuerySet[Attempt]:
    found = Attempt.objects.filter(ended_at=None, settling_at=None, stop__isnull=True, contact_lost_at=None)
    return found.filter(go__isnull=False, run__cluster=cluster, run__status=Status.RUNNING, run__wanted=Wanted.RUN)


def _attempts(cluster: Cluster) -> list[Attempt]:
    """Return the attempts that may be asked: what they have done so far is not lost by it. One with a share of a slot
    is not: the others of that slot would still hold it."""
    found = _training(cluster).filter(run__slot_shares=1).select_related("run__cluster")
    found = found.prefetch_related("placements__held_slots").order_by("run__created_at", "run")
    return [one for one in found if _keeps_its_state(one.run)]


def _keeps_its_state(run: Run) -> bool:
    """A recipe saves a checkpoint; a script is one that may be started again."""
    return run.saves_at_stop or (run.is_script and RestartRules.of(run.spec).max > 0)


def _holders(attempts: list[Attempt], now: datetime) -> list[SlotHolder]:
    requests = {one.run: one for one in requests_of(Run.objects.filter(pk__in=[one.run_id for one in attempts]))}
    measured = measured_sizes([one.run_id for one in attempts if one.run.node_counts])
    return [
        SlotHolder(
            requests[one.run_id],
            tuple((part.node_id, tuple(slot.index for slot in part.held_slots.all())) for part in one.placements.all()),
            (now - one.go_at).total_seconds() if one.go_at else 0.0,
            speed_of(measured.get(one.run_id, {})),
        )
        for one in attempts
    ]


# Speed of elastic runs on each number of nodes that they have trained on, from the steps that their attempts took:
# control notes where one was first seen, and the mean time of a step since then, with checkpoints and validations.


def measure(attempts: Iterable[Attempt]) -> None:
    """Write how fast the attempts step, where that is news; the first time beside what their runs did on other
    sizes."""
    known = Telemetry.objects.in_bulk([one.run_id for one in attempts])
    for attempt in attempts:
        found, pace = known.get(attempt.run_id), attempt.pace
        if found is None or found.attempt != attempt.fence or found.step is None or found.step_at is None:
            continue
        if pace is not None:
            steps, seconds = found.step - pace["step"], found.step_at - pace["at"]
            before = pace.get("step_s")
            if steps < LEAST_STEPS or seconds < LEAST_S or (before and abs(seconds / steps - before) < MOVED * before):
                continue
            others = {} if before else measured_sizes([attempt.run_id])[attempt.run_id]
            pace = {**pace, "step_s": seconds / steps}
            if sentence := measured_sentence(attempt.run, others, len(attempt.placements.all()), seconds / steps):
                attempt.run.record("speed-measured", sentence, attempt=attempt)
        else:
            pace = {"step": found.step, "at": found.step_at}
        attempt.pace = pace
        Attempt.objects.filter(pk=attempt.pk).update(pace=pace)


def measured_sizes(run_ids: Sequence[str]) -> dict[str, dict[int, float]]:
    """Return the seconds of a step by the number of nodes, for each of the runs: the newest of each number."""
    found: dict[str, dict[int, float]] = {run: {} for run in run_ids}
    rows = Attempt.objects.filter(run__in=run_ids, pace__step_s__isnull=False).annotate(nodes=Count("placements"))
    for run, nodes, pace in rows.order_by("number").values_list("run", "nodes", "pace"):
        assert pace is not None, "the filter has no others"
        found[run][nodes] = pace["step_s"]
    return found


def speed_sentence(run: Run, speed: Speed, num_before: int, number: int) -> str:
    """Say what a change is expected to do to the speed, and by what; nothing of a run that moves."""
    if number == num_before:
        return ""
    times = f"{speed.times(num_before, number):.3g} times the {_unit(run)}"
    return f" It is expected to have {times}, {speed.basis(num_before, number)}."


def measured_sentence(run: Run, others: Mapping[int, float], number: int, step_s: float) -> str:
    """Say what came of a change: the nearest other size beside this one. Nothing where no other was measured."""
    if not (sizes := sorted(others.keys() - {number}, key=lambda one: (abs(one - number), one))):
        return ""
    before = others[sizes[0]]
    took = f"On {counted(number, 'node')} a step takes {step_s:.3g} s, on {sizes[0]} it took {before:.3g} s"
    return f"{took}: {before / step_s:.3g} times the {_unit(run)}."


def _unit(run: Run) -> str:
    """A recipe keeps its global batch; what a script has in a step is its own."""
    return "samples/s" if run.recipe else "steps/s"
