"""Charts as pictures: SVG that needs no script, for pages that strangers read, exported files and paper."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from dashboard.pages.shared import numbers
from runs.records.points.read import Curve

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 24  # of the frame around the plot
NUM_TICKS = 5


class StillLine(NamedTuple):
    """One line: the index of its colour from 0, the words of its legend, and its curves, one for each attempt."""

    colour: int
    label: str
    curves: Sequence[Curve]


class _Scale(NamedTuple):
    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the range: multiples of 1, 2 or 5 times a power of ten."""
        rough = (self.high - self.low) / NUM_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
        return [index * step for index in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def still_chart(name: str, lines: Sequence[StillLine], over: str = "steps") -> SafeString:
    """Return a figure of the metric over the steps: the mean of each bucket over a band from its least to its greatest.

    Values that are not finite leave a gap. The last value of each line stands in the legend. An empty chart says so.
    """
    drawn = [_steps_and_values(curve) for line in lines for curve in line.curves]
    steps = np.concatenate([one[0] for one in drawn]) if drawn else np.empty(0)
    values = np.concatenate([np.concatenate(one[1:]) for one in drawn]) if drawn else np.empty(0)
    values = values[np.isfinite(values)]
    if not len(values):
        return mark_safe(f'<figure class="still"><figcaption>{escape(name)}</figcaption><p>No values.</p></figure>')
    x = _Scale(*_range(float(steps.min()), float(steps.max())), LEFT, WIDTH - RIGHT)
    y = _Scale(*_range(float(values.min()), float(values.max())), HEIGHT - BOTTOM, TOP)
    paths = "".join(_line(line, x, y) for line in lines)
    words = ", ".join(f"{line.label}: last {_last(line)}" for line in lines)
    legend = "".join(
        f'<li><svg viewBox="0 0 9 9"><rect width="9" height="9" rx="2" fill="var(--series-{line.colour + 1})"/></svg>'
        f"{escape(line.label)} <b>{_last(line)}</b></li>"
        for line in lines
    )
    return mark_safe(
        f'<figure class="still"><figcaption>{escape(name)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{name} over {over}. {words}")}">'
        f'{_axes(x, y)}{paths}</svg><ul class="still-legend">{legend}</ul></figure>'
    )


def still_charts(names: Sequence[str], curves: Sequence[Curve], runs: Mapping[str, tuple[int, str]]) -> SafeString:
    """Return a figure for each name that has curves, a line for each run and set of labels. ``runs``: the index of the
    colour and the name of each run by its id."""
    figures = []
    for name in names:
        lines: dict[tuple[str, str], list[Curve]] = {}
        for curve in curves:
            if curve.name == name and curve.run_id in runs:
                words = ", ".join(f"{key} {value}" for key, value in sorted(curve.labels.items()))
                lines.setdefault((curve.run_id, words), []).append(curve)
        drawn = [
            StillLine(runs[run_id][0], f"{runs[run_id][1]} {words}".strip(), found)
            for (run_id, words), found in lines.items()
        ]
        figures.append(still_chart(name, drawn))
    return mark_safe("".join(figures))


def _steps_and_values(curve: Curve) -> tuple[np.ndarray, ...]:
    """The steps, and the value or the mean, least and greatest of each."""
    found = curve.columns
    keys = ("value",) if curve.kind == "raw" else ("mean", "min", "max")
    return found["step"].astype(float), *(found[key] for key in keys)


def _range(low: float, high: float) -> tuple[float, float]:
    if low < high:
        return low, high
    return low - (abs(low) / 2 or 1.0), high + (abs(high) / 2 or 1.0)


def _line(line: StillLine, x: _Scale, y: _Scale) -> str:
    colour, found = f"var(--series-{line.colour + 1})", []
    for curve in line.curves:
        steps, values, *around = _steps_and_values(curve)
        if around:
            found.append(f'<path d="{_band(steps, around[0], around[1], x, y)}" fill="{colour}" opacity=".16"/>')
        found.append(f'<path d="{_path(steps, values, x, y)}" fill="none" stroke="{colour}"/>')
        if len(steps) == 1 and math.isfinite(values[0]):
            found.append(f'<circle cx="{x.place(steps[0]):.1f}" cy="{y.place(values[0]):.1f}" r="2" fill="{colour}"/>')
    return "".join(found)


def _path(steps: np.ndarray, values: np.ndarray, x: _Scale, y: _Scale) -> str:
    parts, is_open = [], False
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        if math.isfinite(value):
            parts.append(f"{'L' if is_open else 'M'}{x.place(step):.1f} {y.place(value):.1f}")
        is_open = math.isfinite(value)
    return "".join(parts)


def _band(steps: np.ndarray, low: np.ndarray, high: np.ndarray, x: _Scale, y: _Scale) -> str:
    kept = np.isfinite(low) & np.isfinite(high)
    if not kept.any():
        return ""
    there = _path(steps[kept], high[kept], x, y)
    back = _path(steps[kept][::-1], low[kept][::-1], x, y)
    return f"{there}L{back[1:]}Z"


def _axes(x: _Scale, y: _Scale) -> str:
    rows = "".join(
        f'<path d="M{LEFT} {y.place(tick):.1f}H{WIDTH - RIGHT}" class="still-grid"/>'
        f'<text x="{LEFT - 6}" y="{y.place(tick) + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
        for tick in y.ticks()
    )
    return rows + "".join(
        f'<text x="{x.place(tick):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{_tick(tick)}</text>'
        for tick in x.ticks()
        if tick >= 0 and abs(tick - round(tick)) < 1e-9
    )


def _tick(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else numbers.number(value)


def _last(line: StillLine) -> str:
    """The last value of the newest attempt, as a figure."""
    newest = max(line.curves, key=lambda curve: curve.attempt, default=None)
    if newest is None or not len(newest.columns["step"]):
        return "–"
    return numbers.number(float(newest.columns["value" if newest.kind == "raw" else "last"][-1]))
