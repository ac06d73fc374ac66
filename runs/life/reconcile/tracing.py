"""Outcomes of the traces that were asked for, written into the runs' history."""

from collections.abc import Iterable
from typing import Literal, TypedDict

from django.db import transaction

from runs.models import Attempt
from runs.records.metrics.progress import facts_of
from trainyard.contract.facts import TRACE, TraceFacts

MAX_NAMED = 3
NO_ANSWER = TraceFacts()


class TraceDocument(TypedDict):
    """A trace as its attempt keeps it."""

    id: str
    first: int
    steps: int
    ranks: Literal["all"] | list[int]
    asked_at: float
    is_told: bool  # its event is written


def record_traces(attempts: Iterable[Attempt]) -> None:
    """Write an event for each trace of these attempts that all of its ranks have spoken of, or that ended with them."""
    for attempt in attempts:
        trace = attempt.trace
        if trace is None or trace["is_told"]:
            continue
        said = facts_of(attempt.run_id, TRACE, TraceFacts, attempt=attempt.fence)
        found = {rank: one for rank, one in said.items() if one.id == trace["id"]}
        ranks = range(attempt.world_size) if trace["ranks"] == "all" else trace["ranks"]
        if attempt.ended_at is not None or all(rank in found for rank in ranks):
            _record(attempt, trace, {rank: found.get(rank, NO_ANSWER) for rank in ranks})


def _record(attempt: Attempt, trace: TraceDocument, found: dict[int, TraceFacts]) -> None:
    recorded: TraceDocument = {**trace, "is_told": True}
    files = [one.file for one in found.values() if one.file]
    with transaction.atomic():
        current = Attempt.objects.select_for_update().values_list("trace", flat=True).get(pk=attempt.pk)
        if current is None or current["id"] != trace["id"] or current["is_told"]:
            return  # another process was faster
        Attempt.objects.filter(pk=attempt.pk).update(trace=recorded)
        code = "traced" if files else "trace-failed"
        attempt.run.record(code, sentence_of(trace, found), data={"files": files}, attempt=attempt)
    attempt.trace = recorded


def sentence_of(trace: TraceDocument, found: dict[int, TraceFacts]) -> str:
    """Say which steps were traced on how many ranks, and why not on the others."""
    first, last = trace["first"], trace["first"] + trace["steps"] - 1
    steps = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
    missing = {rank: one.why or "its node did not answer" for rank, one in found.items() if not one.file}
    done = len(found) - len(missing)
    why = "; ".join(f"rank {rank}: {words}" for rank, words in list(missing.items())[:MAX_NAMED])
    if not done:
        return f"{steps[0].upper()}{steps[1:]} could not be traced: {why}."
    ranks = f"{done} rank{'' if done == 1 else 's'}" + (f" of {len(found)}" if missing else "")
    return f"Traced {steps} on {ranks}" + (f"; {why}." if missing else ".")
