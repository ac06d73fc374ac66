"""Orders of a cluster's queue, by name: a policy is a pure function on plain values, and a row of POLICIES.

It says which of the runs of one priority is looked at next. A higher priority goes first under each policy, and runs
that recover come before the queue. What waits for room then keeps those behind it waiting: see scheduling.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from runs.placing.scheduling import Request

Held = Mapping[str, float]  # slots of the cluster that a project's runs hold, by the project's name


class Policy(NamedTuple):
    label: str
    order: Callable[[Sequence[Request], Held], Sequence[Request]]  # of requests that come oldest first
    reads_held: bool = True


def ordered(policy: Policy, requests: Sequence[Request], held: Held) -> list[Request]:
    """Return the requests, which come oldest first, in the order in which they are placed."""
    return sorted(policy.order(requests, held), key=lambda one: one.priority)


def equal_shares(requests: Sequence[Request], held: Held) -> list[Request]:
    """The project that holds the fewest slots is next with its oldest run, and counts as holding what that asks for.
    Of projects that hold as many the one whose run came first is."""
    waiting: dict[str, deque[Request]] = defaultdict(deque)
    for request in requests:
        waiting[request.project].append(request)
    projects = [(held.get(project, 0.0), place, project) for place, project in enumerate(waiting)]
    heapify(projects)
    found = []
    while projects:
        num_held, place, project = heappop(projects)
        found.append(request := waiting[project].popleft())
        if waiting[project]:
            heappush(projects, (num_held + request.num_slots / request.num_shares, place, project))
    return found


FIRST_COME = "first-come"  # a cluster's policy unless somebody chooses
POLICIES = {
    FIRST_COME: Policy("first come, first served", lambda requests, _: requests, reads_held=False),
    "equal-shares": Policy("the project that holds the fewest slots first", equal_shares),
}
