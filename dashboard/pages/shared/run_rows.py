"""Runs as the pages draw them, in few queries for any number: document, badge, sparkline, buttons for a person."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.utils import timezone

from dashboard.pages.shared.badges import Badge, run_badge
from dashboard.pages.shared.drawn import address
from dashboard.pages.shared.run_colours import colour_of, colours_for
from runs.models import Run
from runs.presenting import runs as presenters
from runs.presenting.listing import Newest, newest_of_all, ranks_of_all
from runs.presenting.measured import SPEEDS, throughput_of
from runs.records.metrics import progress
from runs.records.metrics.models import Telemetry
from runs.records.points import read
from runs.rights.access import Someone
from runs.values.columns import IdleMark
from runs.values.status import Status, Wanted
from trainyard.contract.answers.runs import Lamp, RunDocument
from trainyard.formats.figures import percent

LOSS = "train/loss"
SPARK_POINTS = 44
SPARK_WIDTH, SPARK_HEIGHT = 88.0, 24.0


class Row(NamedTuple):
    run: Run
    badge: Badge
    lamps: list[Lamp]  # of a live run
    step: int | None
    steps: int | None  # how many it shall do; None where nobody knows
    spark: str
    loss: float | str | None
    rate: float | None
    rate_unit: str
    mfu: str  # of what the devices can do at best; empty where nobody measured it
    nodes: int
    processes: int
    duration_s: float | None
    eta_s: float | None
    colour: int  # from 1, as the classes of the series colours count
    idle: IdleMark | None = None  # of one that trains and hardly uses what it holds

    @property
    def is_running(self) -> bool:
        return self.run.status == Status.RUNNING


class Known(NamedTuple):
    newest: dict[str, Newest]  # of those that live, at least
    ranks: dict[str, list[int]]  # on each node
    telemetry: dict[str, Telemetry]
    figures: dict[str, read.RowFigures]


def rows(runs: Sequence[Run], *, now: datetime | None = None) -> list[Row]:
    now = now or timezone.now()
    known = _known(runs, newest_of_all([run for run in runs if run.is_live]))
    return [_row(run, known, now) for run in runs]


def row_with_document(run: Run, now: datetime) -> tuple[Row, RunDocument]:
    """The run's row, and its REST document without where its time went, with the summary of its losses alone."""
    newest = newest_of_all([run])
    known, summary = _known([run], newest), read.summaries([run.pk], name__icontains="loss")[run.pk]
    doc = presenters.run_document(
        run, known.telemetry[run.pk], summary, now, throughput_of(known.figures[run.pk].medians), newest=newest[run.pk]
    )  # fmt: skip
    return _row(run, known, now), doc


def _known(runs: Sequence[Run], newest: dict[str, Newest]) -> Known:
    ids = [run.pk for run in runs]
    ranks = ranks_of_all([run_id for run_id in ids if run_id not in newest])
    ranks |= {run_id: [one.num_ranks for one in found.placements] for run_id, found in newest.items()}
    return Known(newest, ranks, progress.telemetry(ids), read.row_figures(ids, LOSS, SPARK_POINTS, medians=SPEEDS))


def _row(run: Run, known: Known, now: datetime) -> Row:
    telemetry, figures = known.telemetry[run.pk], known.figures[run.pk]
    speed, (nodes, processes) = throughput_of(figures.medians), shape(run, known.ranks[run.pk])
    step, steps = presenters.step_of(run, telemetry), run.steps
    lamps = idle = None
    if run.is_live:
        newest = known.newest[run.pk]
        idle = newest.attempt.idle_mark if newest.attempt else None
        sendings = presenters.sendings_of(newest.placements)
        lamps = presenters.lamps(presenters.facts_of(run, newest, sendings, telemetry, now))
    is_stepping = lamps is not None and lamps["progress"]["colour"] == presenters.GREEN
    return Row(
        run=run,
        badge=run_badge(run),
        lamps=[lamps["process"], lamps["progress"], lamps["telemetry"]] if lamps is not None else [],
        step=step,
        steps=steps,
        spark=spark_path(figures.line),
        loss=figures.last,
        rate=speed.value,
        rate_unit=speed.unit,
        mfu="" if speed.mfu is None else percent(speed.mfu),
        nodes=nodes,
        processes=processes,
        duration_s=duration_s(run, _end_of_what_was_sent(run, telemetry, now)),
        eta_s=eta_s(step, steps, telemetry.median_step_s) if is_stepping else None,
        colour=colour_of(run.pk) + 1,
        idle=idle,
    )


def coloured(user: Someone, made: Sequence[Row]) -> list[Row]:
    """The rows in the colours that this person chose for their runs."""
    colours = colours_for(user, [row.run for row in made])
    return [row._replace(colour=colours[row.run.pk] + 1) for row in made]


def run_url(run_id: str) -> str:
    """The URL of the run's page, for tables that hold hundreds of them."""
    return address("run", run_id)


def shape(run: Run, ranks: Sequence[int]) -> tuple[int, int]:
    """Nodes, and ranks on each, as the nodes of the newest attempt have them, else as the spec asks; none of what runs
    elsewhere."""
    if run.is_local:
        return 0, 0
    if ranks:
        return len(ranks), max(ranks)
    resources = run.spec.get("resources", {})
    nodes = resources.get("nodes", 1)
    return int(nodes.get("max", 1) if isinstance(nodes, dict) else nodes), int(resources.get("processes_per_node") or 1)


def duration_s(run: Run, now: datetime) -> float | None:
    return max(0.0, ((run.ended_at or now) - run.started_at).total_seconds()) if run.started_at else None


def _end_of_what_was_sent(run: Run, known: Telemetry, now: datetime) -> datetime:
    """Return the time up to which the run is known: of one logged elsewhere and out of contact, its newest record's."""
    if not run.is_local or run.status == Status.RUNNING:
        return now
    return now if known.step_at is None else min(now, datetime.fromtimestamp(known.step_at, UTC))


def eta_s(step: int | None, steps: int | None, median_step_s: float | None) -> float | None:
    """Return how many seconds a run that counts steps will go on; None where that is unknown."""
    if median_step_s is None or step is None or steps is None:
        return None
    return float((steps - step) * median_step_s) if step < steps else None


def spark_path(values: Iterable[float]) -> str:
    """An SVG path through the values, left to right."""
    found = list(values)
    if len(found) < 2:
        return ""
    low, high = min(found), max(found)
    span = (high - low) or 1.0
    step = SPARK_WIDTH / (len(found) - 1)
    points = (f"{at * step:.1f},{2 + (high - value) / span * (SPARK_HEIGHT - 4):.1f}" for at, value in enumerate(found))
    return "M" + "L".join(points)


REWINDABLE = (Status.RUNNING, Status.PAUSED, Status.FAILED, Status.CANCELLED)


class Offers(NamedTuple):
    stop: bool  # it is live and was not asked to stop yet
    end_at_once: bool  # it is stopping for good
    pause: bool
    resume: bool
    restart: bool  # it ended without success
    repair: bool  # it failed: a restart is the first thing to offer
    give_up: bool  # it is out of contact
    clone: bool
    resize: bool  # it is elastic
    trace: bool  # its recipe is training now
    rewind: bool  # it trains, or it was ended and may go on
    archive: bool
    unarchive: bool
    delete: bool


def stop_words(run: Run) -> str:
    """Return what a stop does to the run, for the question before it."""
    grace = run.spec.get("limits", {}).get("grace") or "5s"
    if run.saves_at_stop:
        return f"Its ranks save a checkpoint first, within {grace}. You can restart it."
    return f"Its ranks get SIGTERM and have {grace} to end. You can restart it."


def pause_words(run: Run) -> str:
    """Return what a pause does to the run, for the question before it."""
    grace = run.spec.get("limits", {}).get("grace") or "5s"
    if run.saves_at_stop:
        return f"Its ranks save a checkpoint, within {grace}, and its slots are free for others until you resume it."
    if "recipe" in run.spec.get("task", {}):
        return "It keeps no checkpoints: only a run that has not started yet can be paused without losing its steps."
    return (
        f"Its ranks get SIGTERM and have {grace} to end. Resuming starts the script again: it finds the folder "
        "that TRAINYARD_CHECKPOINTS names, and its working folder where it comes to the same nodes."
    )


def give_up_words(run: Run) -> str:
    """Return what happens to a run that is given up, for the question before it."""
    if run.is_local:
        return "It ends as cancelled, unless its end is sent after all. Nothing that was logged is lost."
    return "It ends as cancelled. If its nodes come back, what they still hold is refused."


def offers_of(run: Run) -> Offers:
    is_ours, is_ended = not run.is_local, not run.is_live
    is_pausing = run.status == Status.STOPPING and run.wanted == Wanted.PAUSE
    return Offers(
        stop=is_ours and run.is_live and (run.status != Status.STOPPING or is_pausing),
        end_at_once=is_ours and run.status == Status.STOPPING and not is_pausing,
        pause=is_ours and run.is_live and run.status not in (Status.STOPPING, Status.PAUSED),
        resume=is_ours and run.status == Status.PAUSED,
        restart=is_ours and is_ended and run.status != Status.SUCCEEDED,
        repair=is_ours and run.status == Status.FAILED,
        give_up=run.status == Status.LOST,
        clone=is_ours,
        resize=is_ours and run.is_live and bool(run.node_counts) and run.status != Status.STOPPING,
        trace=run.status == Status.RUNNING and bool(run.spec.get("train")),
        rewind=is_ours and bool(run.spec.get("train")) and run.status in REWINDABLE,
        archive=is_ended and run.archived_at is None,
        unarchive=is_ended and run.archived_at is not None,
        delete=is_ended,
    )
