"""The product's own order, placing and predictions in virtual time."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, ValuesView
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from random import Random
from typing import Any

from benchmarks.queueing.trace import SLOTS, Job, Past
from runs.placing.fitting import GPU, Placed, Request, Room, Waiting
from runs.placing.forecasting import Hold, starts
from runs.placing.policies import POLICIES, Standing, ordered
from runs.placing.scheduling import place
from runs.placing.spans import Outcome, Span, corrected, same

KNOWN_AFTER_S = 60.0  # a job that has run so long has told its own steps
HALF_LIFE_S = 7 * 86_400.0
WEEK_S = 7 * 86_400.0
ARRIVAL, END, KNOWN = range(3)


class Ends(Mapping[int, float]):
    """Seconds until each held slot of a node comes free, whenever it is asked for."""

    def __init__(self, clock: Clock) -> None:
        self.at: dict[int, float] = {}
        self._clock = clock

    def __getitem__(self, slot: int) -> float:
        return self.at[slot] - self._clock.now

    def __iter__(self) -> Iterator[int]:
        return iter(self.at)

    def values(self) -> ValuesView[float]:
        return {slot: at - self._clock.now for slot, at in self.at.items()}.values()

    def __len__(self) -> int:
        return len(self.at)


@dataclass
class Clock:
    now: float = 0.0


@dataclass
class Played:
    """What came of the jobs, by number: when each started, and in how many seconds the sampled ones were told to."""

    started: dict[int, float] = field(default_factory=dict)
    told: dict[int, tuple[float, Span]] = field(default_factory=dict)  # when, and what
    outcomes: list[Outcome] = field(default_factory=list)  # of those that have started since
    telling_s: float = 0.0  # of processor time
    short: dict[tuple[int, str], float] = field(default_factory=lambda: defaultdict(float))  # slot-seconds below an
    # equal part of the cluster, by week and team


class Simulator:
    """A cluster of ``num_nodes`` nodes. Without ``knows_ends`` nobody passes: strictly in order."""

    def __init__(
        self, num_nodes: int, policy: str, *, knows_ends: bool = True, told: float = 0.0, seed: int = 0
    ) -> None:
        self._policy, self._knows, self._told, self._random = POLICIES[policy], knows_ends, told, Random(seed)
        self._clock = Clock()
        self._ends = [Ends(self._clock) for _ in range(num_nodes)]
        self._free = [set(range(SLOTS)) for _ in range(num_nodes)]
        self._rooms = [self._room(number) for number in range(num_nodes)]
        self._past = Past()
        self._lanes: dict[tuple[str, int], deque[Job]] = defaultdict(deque)
        self._live: dict[int, tuple[Job, Placed]] = {}
        self._looked_at: dict[str, Job] = {}
        self._due: dict[int, float] = {}  # when each live job ends
        self._later: list[tuple[float, int, int]] = []  # events that follow from others
        self._expected: dict[int, float] = {}  # of the sampled ones, before it was corrected
        self._held: dict[str, float] = defaultdict(float)
        self._used: dict[str, float] = defaultdict(float)
        self._asked: dict[str, float] = defaultdict(float)  # slots that its jobs hold or wait for
        self.played = Played()

    def run(self, jobs: list[Job]) -> Played:
        events: list[tuple[float, int, int]] = [(job.at, ARRIVAL, job.number) for job in jobs]
        events.sort(reverse=True)
        later = self._later
        while events or later:
            at, what, number = heappop(later) if not events or (later and later[0] < events[-1]) else events.pop()
            self._go_on_to(at)
            job = jobs[number]
            if what == KNOWN:
                if number in self._live:
                    self._tell_end(job, self._due[number])
                continue
            if what == END and self._due.get(number) != at:  # it has changed its size since
                continue
            if what == ARRIVAL:
                self._lanes[job.kind].append(job)
                self._asked[job.team] += job.nodes * job.slots
            else:
                self._finish(job)
            for started in self._round():
                heappush(later, (at + KNOWN_AFTER_S, KNOWN, started.number))
            if what == ARRIVAL and number not in self.played.started and self._random.random() < self._told:
                began = time.process_time()
                span = self._predicted(job)
                self._expected[number] = span.expected
                self.played.told[number] = at, corrected(span, self.played.outcomes)
                self.played.telling_s += time.process_time() - began
        return self.played

    def _go_on_to(self, at: float) -> None:
        seconds = at - self._clock.now
        if seconds <= 0:
            return
        decay = 0.5 ** (seconds / HALF_LIFE_S)
        week = int(self._clock.now / WEEK_S)
        for team, part in equal_parts(self._asked, SLOTS * len(self._rooms)).items():
            self.played.short[week, team] += (part - self._held[team]) * seconds
        for team, held in self._held.items():
            self._used[team] = self._used[team] * decay + held * seconds
        self._clock.now = at

    def _round(self) -> list[Job]:
        """Place what can be placed."""
        num_free = sum(map(len, self._free))
        return self._placed(self._next(num_free))[0] if num_free else []

    def _next(self, most: int) -> list[Request]:
        """Return what waits, in its order. Of jobs alike only so many are looked at as there are free slots."""
        looked_at = sorted(
            (job for lane in self._lanes.values() for job in islice(lane, most)), key=lambda job: job.number
        )
        self._looked_at = {str(job.number): job for job in looked_at}
        return ordered(self._policy, [self._request(job) for job in looked_at], self._standings()) if looked_at else []

    def _placed(self, requests: list[Request]) -> tuple[list[Job], list[Waiting]]:
        """Start what fits. Return those jobs, and who waits."""
        started, waiting = [], []
        for answer in place("", requests, self._rooms) if requests else ():
            if isinstance(answer, Placed):
                started.append(job := self._looked_at[answer.run])
                self._begin(job, answer)
            else:
                waiting.append(answer)
        return started, waiting

    def _standings(self) -> dict[str, Standing]:
        return {team: Standing(held, self._used[team]) for team, held in self._held.items()}

    def _request(self, job: Job) -> Request:
        lasts = self._past.of(job).high if self._knows else None
        return Request(str(job.number), job.nodes, job.slots, GPU, project=job.team, lasts_s=lasts)

    def _begin(self, job: Job, placed: Placed) -> None:
        self._lanes[job.kind].remove(job)
        self._live[job.number] = job, placed
        self._held[job.team] += job.nodes * job.slots
        self.played.started[job.number] = self._clock.now
        if job.number in self.played.told:
            at, told = self.played.told[job.number]
            self.played.outcomes.append(Outcome(self._expected[job.number], *told[:3], self._clock.now - at))
        for part in placed.parts:
            self._free[int(part.node)] -= set(part.slots)
            self._rooms[int(part.node)] = self._room(int(part.node))
        self._tell_end(job, self._clock.now + max(KNOWN_AFTER_S, self._past.of(job).expected))
        self._end_at(job, self._clock.now + job.lasts_s)

    def _end_at(self, job: Job, at: float) -> None:
        self._due[job.number] = at
        heappush(self._later, (at, END, job.number))

    def _finish(self, job: Job) -> None:
        _, placed = self._live.pop(job.number)
        del self._due[job.number]
        self._held[job.team] -= job.nodes * job.slots
        self._asked[job.team] -= job.nodes * job.slots
        self._past.add(job)
        for part in placed.parts:
            self._free[int(part.node)] |= set(part.slots)
            for slot in part.slots:
                self._ends[int(part.node)].at.pop(slot, None)
            self._rooms[int(part.node)] = self._room(int(part.node))

    def _tell_end(self, job: Job, at: float) -> None:
        if self._knows:
            for part in self._live[job.number][1].parts:
                self._ends[int(part.node)].at.update(dict.fromkeys(part.slots, at))

    def _room(self, number: int) -> Room:
        free = tuple(sorted(self._free[number]))
        return Room(str(number), f"node-{number:04}", SLOTS, free, GPU, ends=self._ends[number])

    def _predicted(self, job: Job) -> Span:
        waiting = sorted((one for lane in self._lanes.values() for one in lane), key=lambda one: one.number)
        requests = ordered(self._policy, [self._request(one) for one in waiting], self._standings())
        lasts = {str(one.number): self._past.of(one) for one in waiting}
        now = self._clock.now
        holds = []
        for number, (one, placed) in self._live.items():
            since = now - self.played.started[number]
            is_known = since >= KNOWN_AFTER_S
            lasts[str(number)] = same(self._due[number] - now) if is_known else self._past.of(one)
            holds += [Hold(str(number), part.node, len(part.slots)) for part in placed.parts]
        found: dict[str, Span] = starts(requests, self._rooms, holds, lasts)
        return found.get(str(job.number), same(float("inf")))


def equal_parts(asked: Mapping[str, float], slots: float) -> dict[str, float]:
    """Divide the slots so that who asks for less than an equal part has that, and the others have the rest equally."""
    found, left = {}, slots
    for number, (team, wanted) in enumerate(sorted(asked.items(), key=lambda one: one[1])):
        found[team] = min(wanted, left / (len(asked) - number))
        left -= found[team]
    return found


def waits(jobs: list[Job], played: Played, **only: Any) -> list[float]:
    """Return how long each of the jobs waited; ``least``: of those with so many slots."""
    return [played.started[job.number] - job.at for job in jobs if job.kind[1] >= only.get("least", 0)]
