"""Runs as the pages draw them: the REST document of each, its badge, its sparkline, in few queries for any number."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.utils import timezone

from dashboard.pages.shared.badges import Badge, run_badge
from dashboard.pages.shared.drawn import address
from dashboard.pages.shared.run_colours import colour_of, colours_for
from runs.models import Run
from runs.presenting import runs as presenters
from runs.presenting.measured import SPEEDS, throughput_of
from runs.presenting.newest import Newest, newest_of_all, ranks_of_all
from runs.records.metrics import progress
from runs.records.metrics.models import Telemetry
from runs.records.points import read
from runs.rights.access import Someone
from runs.values.status import Status
from trainyard.contract.answers.runs import Lamp, Lamps, RunDocument
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

    @property
    def is_running(self) -> bool:
        return self.run.status == Status.RUNNING


class Known(NamedTuple):
    """Data that is read of runs, by their ids."""

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
    lamps = _lamps(run, known.newest[run.pk], telemetry, now) if run.is_live else None
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
    )


def _lamps(run: Run, newest: Newest, telemetry: Telemetry, now: datetime) -> Lamps:
    return presenters.lamps(presenters.facts_of(run, newest, presenters.sendings_of(newest.placements), telemetry, now))


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
