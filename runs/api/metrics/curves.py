"""Points of series as an answer: who asks again gets 304 while nothing came, in JSON or in columns."""

import hashlib
import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from ninja.errors import HttpError

import trainyard
from runs.api.metrics.columns import CONTENT_TYPE, VERSION, SeriesHead, as_columns, as_json
from runs.models import Run
from runs.records.metrics.progress import cursors_of
from runs.records.points.read import TooManyPoints, curves

MAX_NAMES = 200
MAX_RUNS = 100
MAX_POINTS = 10_000  # of a series
MAX_ANSWER_POINTS = 1_000_000  # of all series: buckets of so many are 56 MB

Form = Literal["json", "columns"]
Axis = Literal["step", "time"]
Bound = float | int | None


class CurveQuestion(NamedTuple):
    """A request for points of a run: which ones, and how finely."""

    names: list[str]
    labels: dict[str, str]
    x: Literal["step", "time", "relative"]
    start: Bound
    end: Bound
    points: int
    attempts: Literal["newest", "all"]

    def window(self, origin: float) -> tuple[Bound, Bound]:
        """Return from and to on the axis of a run that began at ``origin``."""
        shift = origin if self.x == "relative" else 0
        return tuple(bound if bound is None else bound + shift for bound in (self.start, self.end))  # type: ignore[return-value]


def answer(
    request: HttpRequest, runs: Sequence[Run], asked: CurveQuestion, *, form: Form | None, is_many: bool = False
) -> HttpResponse:
    """Answer with the points. Raises HttpError 422 where they would be too many."""
    form = form or ("columns" if request.accepts(CONTENT_TYPE) and not request.accepts("text/html") else "json")
    ids = [run.pk for run in runs]
    origins = {run.pk: origin_of(run) for run in runs} if asked.x == "relative" else {}
    if known := parse_etags(request.headers.get("If-None-Match", "")):
        tag = _tag(asked, form, cursors_of(ids), origins)
        if tag in known:
            return _with_headers(HttpResponseNotModified(), tag)
    try:
        windows = {run_id: asked.window(origins.get(run_id, 0.0)) for run_id in ids}
        axis: Axis = "step" if asked.x == "step" else "time"
        cursors, found = curves(
            windows, asked.names, asked.labels, axis, asked.points, asked.attempts, at_most=MAX_ANSWER_POINTS
        )
    except TooManyPoints as error:
        words = f"These are up to {error.num_points:,} points, and one answer has at most {MAX_ANSWER_POINTS:,}"
        words += ": ask for fewer runs or names, or for fewer points of each."
        raise HttpError(422, words) from error
    head: SeriesHead = {"cursors": cursors} if is_many else {"cursor": cursors[ids[0]]}
    if origins:
        head |= {"origins": origins} if is_many else {"origin": origins[ids[0]]}
    write, kind = (as_columns, CONTENT_TYPE) if form == "columns" else (as_json, "application/json")
    response = HttpResponse(write(head, found, is_many=is_many), content_type=kind)
    return _with_headers(response, _tag(asked, form, cursors, origins))


def origin_of(run: Run) -> float:
    """Return when the run started, in Unix seconds; when it was submitted, where it has not."""
    return (run.started_at or run.created_at).timestamp()


def _tag(asked: CurveQuestion, form: Form, cursors: dict[str, int], origins: dict[str, float]) -> str:
    """Return the ETag of all that the answer depends on. Weak: after a compaction a mean's last bit may differ."""
    depends_on = [trainyard.__version__, VERSION, form, asked._asdict(), cursors, origins]
    return f'W/"{hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]}"'


def _with_headers(response: HttpResponse, tag: str) -> HttpResponse:
    """Let the browser keep the answer, and ask each time whether it still is the one."""
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ("Accept", "Authorization", "Cookie"))
    return response
