"""Elastic jobs in virtual time: they grow onto what is idle and give it back, by the product's own decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from benchmarks.queueing.simulator import KNOWN_AFTER_S, Simulator
from benchmarks.queueing.trace import Job
from runs.placing.changing import Training, change_of, shared_out
from runs.placing.fitting import GPU, Part, Placed, Request
from runs.placing.policies import FAIR_SHARE
from runs.placing.preempting import SlotHolder, askable, make_room
from runs.placing.scheduling import place
from runs.placing.speeds import Speed, speed_of

CHANGE_S = 30.0  # for which a job that changes its size does nothing


@dataclass
class Work:
    """What a live elastic job has left, in seconds at its least size, from ``at`` on."""

    left_s: float
    at: float
    speed: Speed


class ElasticSimulator(Simulator):
    """A part of the jobs may have once to twice their nodes. On ``n`` times the nodes they have ``n`` times the speed
    where ``efficiency`` is 1; else twice the nodes have so much of twice the speed, by Amdahl's law."""

    def __init__(self, num_nodes: int, *, part: float, efficiency: float, seed: int) -> None:
        super().__init__(num_nodes, FAIR_SHARE, seed=seed)
        self._part, self._seed, self._twice = part, seed, 2 * efficiency
        self._work: dict[int, Work] = {}
        self.changes = 0

    def _is_elastic(self, job: Job) -> bool:
        return Random(f"{self._seed} {job.number}").random() < self._part

    def _counts(self, job: Job) -> tuple[int, ...]:
        return tuple(range(job.nodes, 2 * job.nodes + 1)) if self._is_elastic(job) else ()

    def _speed(self, job: Job) -> Speed:
        return speed_of({job.nodes: 1.0, 2 * job.nodes: 1 / self._twice})

    def _request(self, job: Job) -> Request:
        return replace(super()._request(job), node_counts=self._counts(job))

    def _begin(self, job: Job, placed: Placed) -> None:
        super()._begin(job, placed)
        if not self._is_elastic(job):
            return
        self._work[job.number] = Work(job.lasts_s, self._clock.now, self._speed(job))
        self._held[job.team] += (len(placed.parts) - job.nodes) * job.slots
        self._go_on_with(job, len(placed.parts))

    def _finish(self, job: Job) -> None:
        if job.number in self._work:
            self._held[job.team] -= (len(self._live[job.number][1].parts) - job.nodes) * job.slots
            del self._work[job.number]
        super()._finish(job)

    def _round(self) -> list[Job]:
        started: list[Job] = []
        first = None
        while requests := self._next(sum(map(len, self._free)) or any(map(self._is_wide, self._work))):
            begun, waiting = self._placed(requests)
            started += begun
            claims = {one.run for one in waiting if one.has_claim}
            first = next((one for one in requests if one.run in claims), None)
            if first is None or not self._give_back(first):
                break
        if not requests or first is None:
            self._grow()
        return started

    def _is_wide(self, number: int) -> bool:
        job, placed = self._live[number]
        return len(placed.parts) > job.nodes

    def _give_back(self, request: Request) -> bool:
        """Have elastic jobs make room for the request, as the product decides. Return whether they did."""
        holders = [self._holder(number) for number in sorted(self._work) if self._is_wide(number)]
        holders = askable(request, holders, self._standings(), asks_others=False)
        concessions = make_room(request, self._rooms, holders) if holders else []
        by_run, again = {one.request.run: one.request for one in holders}, []
        for one in concessions:
            again.append(replace(by_run[one.run], num_nodes=one.num_nodes, node_counts=()))
            self._release(int(one.run))
        for answer in place("", [*again, request], self._rooms)[: len(again)]:
            assert isinstance(answer, Placed), "so it was decided"
            self._change(int(answer.run), answer)
        return bool(concessions)

    def _holder(self, number: int) -> SlotHolder:
        job, placed = self._live[number]
        nodes = frozenset(part.node for part in placed.parts)
        request = replace(self._request(job), before=nodes)
        slots = tuple((part.node, part.slots) for part in placed.parts)
        return SlotHolder(request, slots, self._clock.now - self.played.started[number], self._work[number].speed)

    def _grow(self) -> None:
        trainings = {}
        for number in sorted(self._work):
            job, placed = self._live[number]
            if len(placed.parts) < 2 * job.nodes:
                nodes = tuple(part.node for part in placed.parts)
                own = Training(str(number), nodes, self._counts(job), job.slots, GPU, speed=self._work[number].speed)
                trainings[str(number)] = own
        free = [room for room in self._rooms if room.free]
        for run, most in (shared_out(list(trainings.values()), free) if free and trainings else {}).items():
            training = trainings[run]
            counts = tuple(one for one in training.node_counts if one <= most)
            change = change_of(replace(training, node_counts=counts), self._rooms, may_grow=True)
            if change is None:
                continue
            job, placed = self._live[int(run)]
            rooms = {room.name: room for room in self._rooms}
            parts = (Part(rooms[name].node, rooms[name].free[: job.slots]) for name in change.joining)
            self._release(int(run))
            self._change(int(run), replace(placed, parts=(*placed.parts, *parts)))

    def _release(self, number: int) -> None:
        """Free what the job holds; it is about to have something else."""
        for part in self._live[number][1].parts:
            self._free[int(part.node)] |= set(part.slots)
            for slot in part.slots:
                self._ends[int(part.node)].at.pop(slot, None)
            self._rooms[int(part.node)] = self._room(int(part.node))

    def _change(self, number: int, placed: Placed) -> None:
        job, before = self._live[number]
        self._live[number] = job, placed
        self._held[job.team] += (len(placed.parts) - len(before.parts)) * job.slots
        for part in placed.parts:
            self._free[int(part.node)] -= set(part.slots)
            self._rooms[int(part.node)] = self._room(int(part.node))
        now, work = self._clock.now, self._work[number]
        work.left_s -= max(0.0, now - work.at) * work.speed.times(job.nodes, len(before.parts))
        work.at = now + CHANGE_S
        self.changes += 1
        self._go_on_with(job, len(placed.parts))

    def _go_on_with(self, job: Job, num_nodes: int) -> None:
        work = self._work[job.number]
        self._end_at(job, work.at + work.left_s / work.speed.times(job.nodes, num_nodes))
        if self._clock.now - self.played.started[job.number] >= KNOWN_AFTER_S:
            self._tell_end(job, self._due[job.number])
        else:
            self._tell_end(job, self._clock.now + max(KNOWN_AFTER_S, self._past.of(job).expected))
