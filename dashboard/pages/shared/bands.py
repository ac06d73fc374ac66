"""Words over steps as bands, such as the phases of a training: stretches in which a run logged the same one."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from django.http import HttpRequest

from dashboard.pages.shared import numbers
from dashboard.pages.shared.run_colours import NUM_COLOURS
from runs.models import Run
from runs.records.media.read import Word, WordSeries, word_series
from runs.records.metrics.progress import telemetry

MAX_RUNS, MAX_ROWS, MAX_LEGEND = 20, 40, 10


class Band(NamedTuple):
    """A stretch from a step and a moment (Unix seconds) up to others; ``colour`` counts from 1."""

    text: str
    colour: int
    first: int
    end: int
    began_at: float
    ended_at: float

    @property
    def words(self) -> str:
        return f"{self.text}: steps {numbers.count(self.first)} to {numbers.count(self.end)}"


class BandRow(NamedTuple):
    """What one run logged; ``started_at`` is the zero of its relative time."""

    run: str
    label: str
    started_at: float
    bands: list[Band]


class BandPanel(NamedTuple):
    """The rows of one name. ``legend`` has the first words with their colours; there are ``num_more``."""

    name: str
    rows: list[BandRow]
    legend: list[tuple[str, int]]
    num_more: int


def bands_context(request: HttpRequest, runs: Sequence[Run]) -> dict[str, object]:
    """Return what ``runs/_bands.html`` needs, read where it is drawn, and where it is fetched from again."""
    query = request.GET.copy()
    query["fragment"] = "bands"
    return {"bands": partial(band_panels, runs), "bands_url": f"?{query.urlencode()}"}


def band_panels(runs: Sequence[Run]) -> list[BandPanel]:
    """Return a panel for each name under which the runs, of many the first, logged nothing but short texts."""
    by_id = {run.pk: run for run in runs[:MAX_RUNS]}
    found = word_series(list(by_id), MAX_ROWS)
    reached = telemetry(list(by_id)) if found else {}
    panels = []
    for name in dict.fromkeys(one.name for one in found):
        colours: dict[str, int] = {}
        rows = []
        for one in (one for one in found if one.name == name):
            run, seen = by_id[one.run], reached[one.run]
            last = Word("", seen.step or 0, seen.step_at or 0.0)
            started_at = (run.started_at or run.created_at).timestamp()
            label = _label(run, one, is_alone=len(runs) == 1)
            rows.append(BandRow(one.run, label, started_at, _bands(one.words, last, colours)))
        panels.append(BandPanel(name, rows, list(colours.items())[:MAX_LEGEND], max(0, len(colours) - MAX_LEGEND)))
    return panels


def _bands(words: Sequence[Word], last: Word, colours: dict[str, int]) -> list[Band]:
    """Return the stretches of words; ``last`` is how far the run has come. New words get the next colour."""
    starts = [word for before, word in pairwise([None, *words]) if before is None or before.text != word.text]
    bands = []
    for start, end in pairwise([*starts, last]):
        colour = colours.setdefault(start.text, len(colours) % NUM_COLOURS + 1)
        over, over_at = max(end.step, start.step + 1), max(end.time, start.time)
        bands.append(Band(start.text, colour, start.step, over, start.time, over_at))
    return bands


def _label(run: Run, series: WordSeries, *, is_alone: bool) -> str:
    own = ", ".join(f"{name} {value}" for name, value in series.labels.items())
    return own if is_alone else f"{run.name}, {own}" if own else run.name
