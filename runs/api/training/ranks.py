"""``/runs/{id}/ranks``: the time of each rank in each step, who slows the others down; going on without a node, or from
an earlier step."""

from typing import Annotated, Literal

import numpy as np
from django.http import HttpRequest
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.schemas import Body, RunOut, schema_of
from runs.life.watching.scores import MEASURES, Score, series_of
from runs.life.watching.slow_ranks import nodes_by_rank, scores_of, slow_sentence
from runs.models import Attempt, Run
from runs.presenting.runs import single_document
from runs.records.metrics import progress
from runs.records.points import read
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from runs.values.columns import SlowRank
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.base import to_builtins

router = Resource(tags=["runs"])

MAX_COLUMNS = 2_000
MICRO = 1e6
Step = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]


class GridQuery(Schema):
    phase: Literal["own", "step", "wait", "data", "forward", "backward", "optimizer", "checkpoint"] = Field(
        default="own", description="own: a rank's own work, before collectives; wait: its time in collectives"
    )
    start: Step | None = Field(default=None, alias="from")
    end: Step | None = Field(default=None, alias="to")
    columns: int = Field(default=400, ge=1, le=MAX_COLUMNS, description="at most so many")


class RankOut(Schema):
    rank: int
    node: str = Field(description="of the newest attempt; empty: it is not known")


class GridOut(Schema):
    """``microseconds`` has a row for each rank and in it a value for each column: the mean over its steps, null where
    there is none. Column n begins with step ``first_step + n * width``."""

    phase: str
    first_step: int
    width: int = Field(description="steps of a column")
    ranks: list[RankOut]
    microseconds: list[list[int | None]]
    cursor: int


class ScoreOut(Schema):
    rank: int
    node: str
    relative: float = Field(description="times the time of the other ranks, in the same steps")
    past: float | None = Field(description="times its own time before; null: too few steps")
    deviation: float = Field(description="robust deviations above the other ranks")
    wait: float = Field(description="share of its steps that it waits in collectives")


class SlowRankOut(schema_of(SlowRank, without=("node_id", "at"))):  # type: ignore[misc]  # its fields are those that are read
    sentence: str


class ScoresOut(Schema):
    attempt: int | None
    step: int | None
    scores: list[ScoreOut] = Field(description="empty: too few steps or ranks, or ranks whose work differs")
    slow: list[SlowRankOut]


class ExcludeIn(Body):
    node: str = Field(max_length=60, description="its name")


class RewindIn(Body):
    to: int = Field(ge=0, lt=2**62, description="the step to go back to; 0 starts anew")
    first: int = Field(ge=1, lt=2**62, description="the first step whose batch is left out")
    last: int = Field(ge=1, lt=2**62, description="the last one")


@router.get("/runs/{run_id}/ranks/grid", response=GridOut, summary="Time of each rank in each step")
@operation(thing(Permission.RUNS_READ))
def grid(request: HttpRequest, run_id: str, query: Query[GridQuery]) -> GridOut:
    """`microseconds` has a row for each of `ranks`. Its columns are means over `width` steps, the first from
    `first_step`; null where there is none. Example: `?phase=forward&columns=200`"""
    run = get_run(request, run_id)
    names = [series_of(phase) for phase in MEASURES[query.phase]]
    found = read.grid(run.pk, names, (query.start, query.end), columns=query.columns)
    total = np.where(np.isfinite(found.values).any(axis=0), np.nansum(found.values, axis=0), np.nan)
    attempt = _newest_attempt(run)
    nodes = nodes_by_rank(attempt.placements.all()) if attempt else {}
    return GridOut(
        phase=query.phase,
        first_step=found.first_step,
        width=found.width,
        ranks=[RankOut(rank=rank, node=nodes.get(rank, ("", ""))[0]) for rank in found.ranks],
        microseconds=[[None if one != one else round(one * MICRO) for one in row] for row in total.tolist()],
        cursor=found.cursor,
    )


@router.get("/runs/{run_id}/ranks/scores", response=ScoresOut, summary="Ranks that slow the others down")
@operation(thing(Permission.RUNS_READ))
def scores(request: HttpRequest, run_id: str) -> ScoresOut:
    """Over the last steps: `relative` to the other ranks in the same steps, against the rank's own `past`, in robust
    `deviation`s, and the share of its time that it `wait`s. `slow` has the ranks that others wait for, with a sentence.
    """
    run = get_run(request, run_id)
    attempt = _newest_attempt(run)
    if attempt is None:
        return ScoresOut(attempt=None, step=None, scores=[], slow=[])
    telemetry = progress.telemetry([run.pk])[run.pk]
    nodes = nodes_by_rank(attempt.placements.all())
    return ScoresOut(
        attempt=attempt.number,
        step=telemetry.step,
        scores=[_score(one, nodes.get(one.rank, ("", ""))[0]) for one in scores_of(attempt, telemetry)],
        slow=[
            SlowRankOut(**to_builtins(one), sentence=slow_sentence([one], num_ranks=attempt.world_size))
            for one in (attempt.stragglers if attempt.ended_at is None else ())
        ],
    )


@router.post("/runs/{run_id}/exclude-node", response=RunOut, summary="Go on without a node")
@operation(thing(Permission.RUNS_LAUNCH))
def exclude_node(request: HttpRequest, run_id: str, body: ExcludeIn) -> RunDocument:
    """Its ranks save a checkpoint and end; the run goes on from it on other nodes. It does not get this node for a day.
    409 where no other node can take its place, and where the run keeps no checkpoints. Example: `{"node": "local-2"}`
    """
    return single_document(actions.exclude_node(actor=actor(request), run=get_run(request, run_id), node=body.node))


@router.post("/runs/{run_id}/rewind", response=RunOut, summary="Go back and skip batches")
@operation(thing(Permission.RUNS_LAUNCH))
def rewind(request: HttpRequest, run_id: str, body: RewindIn) -> RunDocument:
    """Its ranks end at once. The next attempt goes on from the newest checkpoint up to step `to`, and leaves out the
    batches of the steps `first` to `last`; so does every later one. 409 for a script, without a checkpoint that old,
    and for steps that were not trained yet. Example: `{"to": 100, "first": 120, "last": 130}`"""
    run = get_run(request, run_id)
    made = actions.rewind_run(actor=actor(request), run=run, to=body.to, first=body.first, last=body.last)
    return single_document(made)


def _newest_attempt(run: Run) -> Attempt | None:
    return run.attempts.order_by("-number").prefetch_related("placements__node").first()


def _score(one: Score, node: str) -> ScoreOut:
    past = None if one.past is None else round(one.past, 4)
    relative, deviation, wait = round(one.relative, 4), round(one.deviation, 2), round(one.wait, 4)
    return ScoreOut(rank=one.rank, node=node, relative=relative, past=past, deviation=deviation, wait=wait)
