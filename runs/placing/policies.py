"""Orders of a cluster's queue, by name: a policy is a pure function on plain values, and a row of POLICIES.

Runs that recover come before the queue, and what a project is guaranteed before the rest of it. What waits for room
then has a reservation that those behind it may not delay: see scheduling.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from runs.placing.fitting import Request
from trainyard.grouping import grouped

TURN_S = 3600.0  # for which a run counts until its project has its next turn in a round


class Standing(NamedTuple):
    """A project on a cluster."""

    held: float = 0.0  # slots that its runs hold
    used: float = 0.0  # slot-seconds, of which those a half-life ago count half
    weight: float = 1.0
    guaranteed: int = 0  # slots
    group: str = ""  # of projects that share; "": it is one by itself
    group_weight: float = 1.0

    def group_of(self, project: str) -> tuple[str, str]:
        return (self.group, "") if self.group else ("", project)


Standings = Mapping[str, Standing]  # by the project's name
Party = TypeVar("Party")  # that has its turn


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
    turns = _in_turns(requests, _project, lambda name: standings.get(name, Standing()).held, lambda _: 1.0)
    return by_priority(turns)


def fair_shares(requests: Sequence[Request], standings: Standings) -> list[Request]:
    """The group of projects that has used the least of late by its weight is next, with the project of it that has by
    its own, with its oldest run of the highest priority; both count as having used an hour of it."""

    def standing(name: str) -> Standing:
        return standings.get(name, Standing())

    def group(request: Request) -> tuple[str, str]:
        return standing(request.project).group_of(request.project)

    used: dict[tuple[str, str], float] = defaultdict(float)
    weights: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for name, one in standings.items():
        used[one.group_of(name)] += one.used
        weights[one.group_of(name)] = one.group_weight if one.group else one.weight
    in_groups: list[Request] = []
    for requests_of_group in grouped((group(one), one) for one in by_priority(requests)).values():
        in_groups += _in_turns(
            requests_of_group,
            _project,
            lambda name: standing(name).used / standing(name).weight,
            lambda name: TURN_S / standing(name).weight,
        )
    return _in_turns(in_groups, group, lambda one: used[one] / weights[one], lambda one: TURN_S / weights[one])


def _project(request: Request) -> str:
    return request.project


def _in_turns(
    requests: Sequence[Request],
    party_of: Callable[[Request], Party],
    begun: Callable[[Party], float],
    of_slot: Callable[[Party], float],
) -> list[Request]:
    """Return the requests so that the party with the least is next. It has ``begun`` with so much, and a request adds
    ``of_slot`` for each of its slots. Of parties that have as much the one whose run came first is."""
    waiting: dict[Party, deque[Request]] = defaultdict(deque)
    for request in requests:
        waiting[party_of(request)].append(request)
    parties = [(begun(party), place, party) for place, party in enumerate(waiting)]
    heapify(parties)
    found = []
    while parties:
        amount, place, party = heappop(parties)
        found.append(request := waiting[party].popleft())
        if waiting[party]:
            heappush(parties, (amount + request.whole_slots * of_slot(party), place, party))
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
