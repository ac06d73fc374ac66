"""The newest attempt of each run of a list, with its nodes' parts: few queries, and no query set for each run."""

from collections.abc import Sequence
from typing import NamedTuple

from runs.models import Attempt, Node, Placement, Run

UNSEEN = ("go", "trace", "stop", "growth", "cause", "failure", "alarms")  # of an attempt, what no list shows


class Newest(NamedTuple):
    """``placements`` have their node and their attempt at hand."""

    attempt: Attempt | None = None
    placements: Sequence[Placement] = ()


def newest_of(run: Run) -> Newest:
    return newest_of_all([run])[run.pk]


def ranks_of_all(run_ids: Sequence[str]) -> dict[str, list[int]]:
    """Return how many ranks each node has in the newest attempt of each run, by the run's id: where nothing else of
    the attempt is shown."""
    attempts = Attempt.objects.filter(run__in=list(run_ids)).order_by("number").values_list("run_id", "pk")
    run_of = {attempt: run_id for run_id, attempt in dict(attempts).items()}
    found: dict[str, list[int]] = {run_id: [] for run_id in run_ids}
    placements = Placement.objects.filter(attempt__in=list(run_of)) if run_of else Placement.objects.none()
    for attempt, num_ranks in placements.values_list("attempt_id", "num_ranks"):
        found[run_of[attempt]].append(num_ranks)
    return found


def newest_of_all(runs: Sequence[Run]) -> dict[str, Newest]:
    """Return the newest attempt of each run by the run's id."""
    by_run = {run.pk: run for run in runs}
    newest = {one.run_id: one for one in Attempt.objects.defer(*UNSEEN).filter(run__in=list(by_run)).order_by("number")}
    attempts = {attempt.pk: attempt for attempt in newest.values()}
    placements = list(Placement.objects.defer("gained").filter(attempt__in=list(attempts))) if attempts else []
    ids = {one.node_id for one in placements}
    nodes = Node.objects.only("name").in_bulk(ids)
    parts: dict[str, list[Placement]] = {attempt_id: [] for attempt_id in attempts}
    for one in placements:
        one.attempt, one.node = attempts[one.attempt_id], nodes[one.node_id]
        parts[one.attempt_id].append(one)
    for attempt in attempts.values():
        attempt.run = by_run[attempt.run_id]
    found = {run_id: Newest(attempt, parts[attempt.pk]) for run_id, attempt in newest.items()}
    return {run_id: found.get(run_id, Newest()) for run_id in by_run}
