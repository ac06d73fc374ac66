"""Words over steps as bands, such as the phases of a training: stretches in which a run logged the same one."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from django.http import HttpRequest

from dashboard.pages.shared import numbers
from dashboard.pages.shared.run_colours import NUM_COLOURS
from runs.models import Run
from runs.records.media import read
from runs.records.metrics.progress import telemetry

MAX_RUNS, MAX_ROWS = 20, 40


class Band(NamedTuple):
    """A stretch from a step and a moment (Unix seconds) up to others; ``colour`` counts from 1."""

    text: str
    words: str
    colour: int
    first: int
    end: int
    began_at: float
    ended_at: float


class BandRow(NamedTuple):
    """What one run logged; ``started_at`` is the zero of its relative time."""

    run: str
    label: str
    started_at: float
    bands: list[Band]


def bands_context(request: HttpRequest, runs: Sequence[Run]) -> dict[str, object]:
    """Return what ``runs/_bands.html`` needs, read where it is drawn, and where it is fetched from again."""
    query = request.GET.copy()
    query["fragment"] = "bands"
    return {"word_bands": partial(band_panels, runs), "bands_url": f"?{query.urlencode()}"}


def band_panels(runs: Sequence[Run]) -> list[tuple[str, list[BandRow], dict[str, int]]]:
    """Return each name under which the runs, of many the first, logged nothing but short texts, with a row for each
    run and the colours of its words."""
    by_id = {run.pk: run for run in runs[:MAX_RUNS]}
    found, reached = read.words(list(by_id), MAX_ROWS), telemetry(list(by_id))
    panels: dict[str, tuple[str, list[BandRow], dict[str, int]]] = {}
    for (name, run_id, labels), words in sorted(found.items(), key=lambda one: list(by_id).index(one[0][1])):
        run, seen = by_id[run_id], reached[run_id]
        _, rows, colours = panels.setdefault(name, (name, [], {}))
        named = [*([run.name] if len(runs) > 1 else []), *(" ".join(one) for one in json.loads(labels).items())]
        bands = _bands(words, read.Word("", seen.step or 0, seen.step_at or 0.0), colours)
        rows.append(BandRow(run_id, ", ".join(named), (run.started_at or run.created_at).timestamp(), bands))
    return [panels[name] for name in sorted(panels)]


def _bands(words: Sequence[read.Word], last: read.Word, colours: dict[str, int]) -> list[Band]:
    """Return the stretches of words; ``last`` is how far the run has come. New words get the next colour."""
    starts = [word for at, word in enumerate(words) if not at or words[at - 1].text != word.text]
    bands = []
    for (text, first, began_at), (_, end, ended_at) in pairwise([*starts, last]):
        colour, end = colours.setdefault(text, len(colours) % NUM_COLOURS + 1), max(end, first + 1)
        said = f"{text}: steps {numbers.count(first)} to {numbers.count(end)}"
        bands.append(Band(text, said, colour, first, end, began_at, max(began_at, ended_at)))
    return bands
