"""A thread of control that asks the systems of engines which bring nodes, beside the tick.

A system may answer slowly or not at all: each cluster has a thread of its own for its round, and a lock in Valkey keeps
two controls from submitting the same job.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import structlog
from django.db import DatabaseError, connections, transaction
from django.utils import timezone
from redis.exceptions import LockError, RedisError

from runs.causes.allocations import AllocationEnding, EndKind, code_of_ending
from runs.engines import ENGINES
from runs.engines.allocating import AllocatingEngine, changed, forget_left, keep_offers, leave
from runs.engines.control_hints import request_reconcile, request_schedule
from runs.engines.machine_system import JobState, MachineRequest, MachineSystem, SystemJob
from runs.engines.pools import LIFE, Pool, join_secret
from runs.engines.refusals import SystemAway, SystemRefused
from runs.models import Allocation, Attempt, Cluster, HeldSlot, JoinToken, Node, Placement
from runs.models.access import digest_of
from runs.serving import broadcast
from runs.serving.certificates import pin
from runs.serving.clock import Clock, only_one
from runs.values.status import OVER, Phase
from trainyard.contract.base import to_builtins
from trainyard.contract.reports import Reason
from trainyard.contract.seals import PREFIX
from trainyard.grouping import grouped

# One round over a cluster whose engine brings nodes: what is wanted, compared with what the system has.
#
# Every step may be repeated, also after control was killed in the middle: a job carries the id of its attempt, and is
# looked for before another is submitted. No transaction is open while the system is asked.


def secret_of(placement: Placement) -> str:
    return join_secret("runs.engines.allocations", f"{placement.attempt_id}/{placement.pk}")


def keep_tokens(attempt: Attempt, now: datetime) -> list[str]:
    """Make the attempt's tokens, or let them live on, and return their secrets in the order of the node ranks. One
    that was used stays used."""
    secrets = []
    for placement in attempt.placements.select_related("node"):
        secret, life = secret_of(placement), {"expires_at": now + LIFE}
        made = {**life, "cluster_id": placement.node.cluster_id, "digest": digest_of(secret)}
        JoinToken.objects.update_or_create(placement=placement, defaults=life, create_defaults=made)
        secrets.append(pin(secret))
    return secrets


# The end of an allocation: its parts of the attempt are over, its slots are free, and its nodes have left.


def close(allocation: Allocation, ending: AllocationEnding | None, now: datetime) -> None:
    """Write that the system has nothing of it any more. ``ending``: of machines that were still needed."""
    attempt = allocation.attempt
    with transaction.atomic():
        allocation.state, allocation.over_at = Allocation.State.OVER, now
        allocation.ending = None if ending is None else to_builtins(ending)
        allocation.reason = allocation.sentence = allocation.problem = ""
        allocation.save(update_fields=["state", "over_at", "ending", "reason", "sentence", "problem"])
        _end_parts(attempt, ending, now)
        JoinToken.objects.filter(placement__attempt=attempt).delete()
        leave(allocation)
    log.info("allocation.over", job=allocation.job, attempt=attempt.pk, ending=ending and str(ending.kind))
    broadcast.run_changed(attempt.run_id)
    if attempt.ended_at is None:
        request_reconcile(attempt.run_id)


def _end_parts(attempt: Attempt, ending: AllocationEnding | None, now: datetime) -> None:
    """End the parts on machines that are gone: nothing runs there, which is a proof, and no silence."""
    code = "machines-given-back" if ending is None else code_of_ending(ending)
    sentence = "The machines were given back." if ending is None else ending.sentence
    reason = Reason(code=code, sentence=sentence, at=now.timestamp(), evidence={})
    for placement in attempt.placements.exclude(phase__in=OVER):
        placement.phase = Phase.ENDED
        placement.report = {**placement.report, "phase": Phase.ENDED, "reason": to_builtins(reason)}
        placement.save(update_fields=["phase", "report"])
    HeldSlot.objects.filter(placement__attempt=attempt).delete()


State = Allocation.State
JOIN_LIMIT = timedelta(minutes=5)  # from the start of a job until all of its nodes have joined
DONE_GRACE = timedelta(seconds=15)  # nodes that have sent everything leave by themselves
LINGER_LIMIT = timedelta(minutes=10)  # …and those that have not keep their machines no longer
UNLISTED_GRACE = timedelta(seconds=10)  # a job that was submitted just now may not be listed yet


def run_round(
    cluster: Cluster, engine: AllocatingEngine, keep: Callable[[], object], *, looks_for_others: bool
) -> None:
    """Do one round. ``keep`` is called before each call to the system, and raises where another control goes on.
    ``looks_for_others``: ask the system also where nothing is open here, for jobs that are left."""
    now = timezone.now()
    keep_offers(cluster, engine.offers(cluster))
    forget_left(cluster, now)
    stays = Attempt.objects.filter(placements__node__kind=Node.Kind.STAYS).values("pk")
    for attempt in Attempt.objects.filter(run__cluster=cluster, ended_at=None, allocation=None).exclude(pk__in=stays):
        Allocation.objects.get_or_create(attempt=attempt)  # it was placed by a control that was killed then
    found = Allocation.objects.filter(attempt__run__cluster=cluster).exclude(state=State.OVER)
    allocations = list(found.select_related("attempt__run").order_by("created_at"))
    pool = Pool(cluster, engine, now)
    if not allocations and not looks_for_others and not pool.is_open:
        return

    def asked() -> MachineSystem:
        """Return the system, once we have made sure that we are still the ones who may ask."""
        keep()
        return system

    try:
        system = engine.system(cluster)
        jobs = asked().jobs()
    except SystemAway as error:
        _record_problem(allocations, str(error))
        return
    _record_problem(allocations, "")
    Comparison(cluster, engine, asked, [job for job in jobs if job.attempt not in pool.machines]).follow(allocations)
    if pool.is_open:
        pool.follow(asked, grouped((job.attempt, job) for job in jobs))
    if any(allocation.state == State.OVER for allocation in allocations):  # its machines are offered at once
        keep_offers(cluster, engine.offers(cluster))
        request_schedule(cluster.pk)


def _record_problem(allocations: Sequence[Allocation], problem: str) -> None:
    for allocation in allocations:
        if allocation.problem != problem:
            allocation.problem = problem
            allocation.save(update_fields=["problem"])


class Comparison:
    """The rows of a cluster beside the jobs that its system has now."""

    def __init__(
        self, cluster: Cluster, engine: AllocatingEngine, asked: Callable[[], MachineSystem], jobs: Sequence[SystemJob]
    ) -> None:
        self._cluster, self._engine, self._asked = cluster, engine, asked
        self._by_attempt = grouped((job.attempt, job) for job in jobs)

    def follow(self, allocations: Sequence[Allocation]) -> None:
        """Do what is missing for each. A system that goes away in the middle is a problem of the one at hand."""
        for allocation in allocations:
            try:
                self._follow(allocation)
            except SystemAway as error:
                _record_problem([allocation], str(error))
        self._cancel_others(allocations)

    def _follow(self, allocation: Allocation) -> None:
        now = timezone.now()
        allocation.attempt.refresh_from_db(fields=["ended_at", "go"])
        job = self._job_of(allocation)
        if job is None and allocation.job:
            job = self._forgotten(allocation, now)
            if job is None:
                return
        if allocation.attempt.ended_at is not None:
            self._give_back(allocation, job, now)
        elif job is None:
            self._submit(allocation, now)
        elif job.state == JobState.OVER:
            close(allocation, self._ending(allocation, job), now)
        else:
            self._record(allocation, job, now)
            if job.is_incomplete:
                self._submit(allocation, now)

    def _job_of(self, allocation: Allocation) -> SystemJob | None:
        """Return the allocation's job, or one that a control which was killed has submitted for it."""
        jobs = self._by_attempt.get(allocation.attempt_id, [])
        named = [job for job in jobs if job.id == allocation.job]
        if named or allocation.job:
            return named[0] if named else None
        return next((job for job in jobs if job.state != JobState.OVER), jobs[-1] if jobs else None)

    def _forgotten(self, allocation: Allocation, now: datetime) -> SystemJob | None:
        """Return what the system's accounts say of a job that is not listed; None where it is too early to look."""
        if allocation.submitted_at is not None and now - allocation.submitted_at < UNLISTED_GRACE:
            return None
        found = self._asked().find(allocation.job)
        if found is not None and found.state == JobState.OVER:
            return found
        words = "so its end is not known either. Nothing of it runs."
        sentence = f"{self._engine.label} does not know job {allocation.job} any more, {words}"
        return SystemJob(
            allocation.job, allocation.attempt_id, JobState.OVER, end=EndKind.FORGOTTEN, end_sentence=sentence
        )

    def _submit(self, allocation: Allocation, now: datetime) -> None:
        attempt, run = allocation.attempt, allocation.attempt.run
        parts, secrets = list(attempt.placements.all()), keep_tokens(attempt, now)
        owner = run.created_by.username if run.created_by else ""
        request = MachineRequest(attempt.pk, run.name, len(parts), parts[0].num_ranks, secrets, run.project.name, owner)
        try:
            job = self._asked().submit(request)
        except SystemRefused as error:
            close(allocation, AllocationEnding(kind=EndKind.REFUSED, sentence=str(error), at=now.timestamp()), now)
            return
        if job == allocation.job:
            return
        allocation.job, allocation.submitted_at = job, now
        allocation.save(update_fields=["job", "submitted_at"])
        words = f"{self._engine.label} has it as job {allocation.job}."
        attempt.run.record("machines-requested", words, data={"job": allocation.job}, attempt=attempt)

    def _record(self, allocation: Allocation, job: SystemJob, now: datetime) -> None:
        """Write what the system says of a job that is not over, and see to it that its nodes can join."""
        if allocation.attempt.go is None:
            keep_tokens(allocation.attempt, now)
        state = State.RUNNING if job.state == JobState.RUNNING else State.PENDING
        waits = f"Waiting for {self._engine.label} on cluster {self._cluster.name}, job {job.id}: {job.sentence}"
        values = {
            "job": job.id,
            "state": state,
            "reason": job.reason[:80] if state == State.PENDING else "",
            "sentence": waits if state == State.PENDING else "",
            "hosts": list(job.hosts),
            "submitted_at": allocation.submitted_at or now,
            "started_at": _time(job.started_at) if state == State.RUNNING else None,
            "ends_at": _time(job.ends_at) if state == State.RUNNING else None,
        }
        changed = [name for name, value in values.items() if getattr(allocation, name) != value]
        for name in changed:
            setattr(allocation, name, values[name])
        if changed:
            allocation.save(update_fields=changed)
            broadcast.run_changed(allocation.attempt.run_id)
        if state == State.RUNNING and self._is_late(allocation, now):
            self._asked().cancel(job.id)
            sentence = (
                f"{self._engine.label} job {job.id} has run for {JOIN_LIMIT.seconds // 60} min and not all of its "
                "nodes have joined. Can they reach the server? "
                f"`trainyard doctor --cluster {self._cluster.name}` looks."
            )
            ending = AllocationEnding(kind=EndKind.NEVER_JOINED, sentence=sentence, at=now.timestamp(), job=job.id)
            close(allocation, ending, now)

    def _is_late(self, allocation: Allocation, now: datetime) -> bool:
        if allocation.started_at is None or now - allocation.started_at < JOIN_LIMIT:
            return False
        return allocation.attempt.placements.filter(node__kind=Node.Kind.OFFERED).exists()

    def _ending(self, allocation: Allocation, job: SystemJob) -> AllocationEnding:
        """Return how the job ended that an attempt still needs. One that ended well has been left by its nodes."""
        kind, sentence = job.end or EndKind.ENDED, job.end_sentence
        has_joined = not allocation.attempt.placements.filter(node__kind=Node.Kind.OFFERED).exists()
        if kind == EndKind.ENDED and not has_joined:
            kind = EndKind.NEVER_JOINED
            words = f"`trainyard doctor --cluster {self._cluster.name}` looks for the reason."
            sentence = f"{sentence.rstrip('.')} before its nodes had joined. {words}"
        at = timezone.now().timestamp()
        return AllocationEnding(kind=kind, sentence=sentence, at=at, job=job.id, exit_code=job.exit_code)

    def _give_back(self, allocation: Allocation, job: SystemJob | None, now: datetime) -> None:
        """End the job of an attempt that is over, once its nodes have sent what they have."""
        if job is None or job.state == JobState.OVER:
            close(allocation, None, now)
            return
        if allocation.job != job.id:
            allocation.job = job.id
            allocation.save(update_fields=["job"])
        if self._is_due_back(allocation, job, now):
            self._asked().cancel(job.id)
            Allocation.objects.filter(pk=allocation.pk, cancelled_at=None).update(cancelled_at=now)

    def _is_due_back(self, allocation: Allocation, job: SystemJob, now: datetime) -> bool:
        attempt = allocation.attempt
        if attempt.ended_at is None or attempt.go is None or job.state == JobState.PENDING:
            return attempt.ended_at is not None
        is_done = not attempt.placements.filter(done_at=None).exists()
        return now - attempt.ended_at > (DONE_GRACE if is_done else LINGER_LIMIT)

    def _cancel_others(self, allocations: Sequence[Allocation]) -> None:
        """Cancel jobs of ours that nobody waits for: a second one for an attempt, one whose run was deleted, or what is
        kept of one that is over."""
        wanted = {allocation.job for allocation in allocations}
        for job in (job for jobs in self._by_attempt.values() for job in jobs):
            if job.id in wanted or (job.state == JobState.OVER and not job.is_kept):
                continue
            if job.state != JobState.OVER:
                log.warning("allocation.left_over", cluster=self._cluster.name, job=job.id, attempt=job.attempt)
            try:
                self._asked().cancel(job.id)
            except SystemAway as error:
                log.warning("allocation.not_cancelled", job=job.id, error=str(error))


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


log = structlog.get_logger(__name__)

EVERY_S = 2.0
OTHERS_EVERY_S = 60.0  # how often a system is asked where nothing is open
LOCK_S = 25  # longer than one call to a system takes; it is taken anew before each
MAX_AT_ONCE = 8


class AllocationClock(Clock):
    def __init__(self) -> None:
        super().__init__("allocations", self._begin_rounds, every_s=EVERY_S, wake=changed)
        self._busy: set[str] = set()
        self._others_due: dict[str, float] = {}
        self._pool = ThreadPoolExecutor(max_workers=MAX_AT_ONCE, thread_name_prefix="allocations")

    def stop(self) -> None:
        super().stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin_rounds(self, _now: datetime) -> None:
        engines = {name: engine for name, engine in ENGINES.items() if isinstance(engine, AllocatingEngine)}
        for cluster in Cluster.objects.filter(engine__in=engines):
            if cluster.pk not in self._busy:
                self._busy.add(cluster.pk)
                self._pool.submit(self._round, cluster, engines[cluster.engine])

    def _round(self, cluster: Cluster, engine: AllocatingEngine) -> None:
        try:
            with only_one(f"{PREFIX}:control:allocations:{cluster.pk}", LOCK_S) as lock:
                if lock is not None:
                    run_round(cluster, engine, lock.reacquire, looks_for_others=self._is_due(cluster.pk))
        except LockError:  # another control has gone on with it
            log.info("allocations.overtaken", cluster=cluster.name)
        except (RedisError, DatabaseError, OSError) as error:
            log.warning("allocations.away", cluster=cluster.name, error=str(error))
        except Exception:  # a bug, or an answer that nobody expected: the next round tries again
            log.exception("allocations.round_failed", cluster=cluster.name)
        finally:
            connections.close_all()
            self._busy.discard(cluster.pk)

    def _is_due(self, cluster: str) -> bool:
        if time.monotonic() < self._others_due.get(cluster, 0.0):
            return False
        self._others_due[cluster] = time.monotonic() + OTHERS_EVERY_S
        return True
