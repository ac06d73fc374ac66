"""Orders of a cluster's queue, by name: a policy is a pure function on plain values, and a row of POLICIES.

Runs that recover come before the queue, and what a project is guaranteed before the rest of it. What waits for room
then has a reservation that those behind it may not delay: see scheduling.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from runs.placing.fitting import Request

TURN_S = 3600.0  # for which a run counts until its project has its next turn in a round


class Standing(NamedTuple):
    """A project on a cluster."""

    held: float = 0.0  # slots that its runs hold
    used: float = 0.0  # slot-seconds, of which those a half-life ago count half
    weight: float = 1.0
    guaranteed: int = 0  # slots


Standings = Mapping[str, Standing]  # by the project's name


class Policy(NamedTuple):
    label: str
    order: Callable[[Sequence[Request], Standings], Sequence[Request]]  # of requests that come oldest first
    reads_used: bool = False
    asks_others: bool = True  # a higher priority has runs of other projects make room, too


def ordered(policy: Policy, requests: Sequence[Request], standings: Standings) -> list[Request]:
    """Return the requests, which come oldest first, in the order in which they are placed."""
    left = {name: one.guaranteed - one.held for name, one in standings.items()}
    owed: list[Request] = []
    rest: list[Request] = []
    for request in policy.order(requests, standings):
        if is_owed := left.get(request.project, 0.0) >= request.whole_slots:
            left[request.project] -= request.whole_slots
        (owed if is_owed else rest).append(request)
    return owed + rest


def by_priority(requests: Sequence[Request], standings: Standings | None = None) -> list[Request]:
    return sorted(requests, key=lambda one: -one.priority)


def equal_shares(requests: Sequence[Request], standings: Standings) -> list[Request]:
    """The project that holds the fewest slots is next with its oldest run, and counts as holding what that asks for. A
    higher priority goes first in any project."""
    return by_priority(_in_turns(requests, lambda name: standings.get(name, Standing()).held, lambda _: 1.0))


def fair_shares(requests: Sequence[Request], standings: Standings) -> list[Request]:
    """The project that has used the least of late by its weight is next, with its oldest run of the highest priority,
    and counts as having used an hour of it."""

    def weight(name: str) -> float:
        return standings.get(name, Standing()).weight

    return _in_turns(
        by_priority(requests),
        lambda name: standings.get(name, Standing()).used / weight(name),
        lambda name: TURN_S / weight(name),
    )


def _in_turns(
    requests: Sequence[Request], begun: Callable[[str], float], of_slot: Callable[[str], float]
) -> list[Request]:
    """Return the requests so that the project with the least is next. It has ``begun`` with so much, and a request adds
    ``of_slot`` for each of its slots. Of projects that have as much the one whose run came first is."""
    waiting: dict[str, deque[Request]] = defaultdict(deque)
    for request in requests:
        waiting[request.project].append(request)
    projects = [(begun(project), place, project) for place, project in enumerate(waiting)]
    heapify(projects)
    found = []
    while projects:
        amount, place, project = heappop(projects)
        found.append(request := waiting[project].popleft())
        if waiting[project]:
            heappush(projects, (amount + request.whole_slots * of_slot(project), place, project))
    return found


FIRST_COME, FAIR_SHARE = "first-come", "fair-share"
POLICIES = {
    FAIR_SHARE: Policy(
        "the project that has used the least of late, by its weight", fair_shares, reads_used=True, asks_others=False
    ),
    FIRST_COME: Policy("the highest priority, then first come, first served", by_priority),
    "equal-shares": Policy("the highest priority, then the project that holds the fewest slots", equal_shares),
}


def policy_of(name: str) -> Policy:
    """Return the policy of that name; of a name that a newer version may have given the simplest."""
    return POLICIES.get(name) or POLICIES[FIRST_COME]
