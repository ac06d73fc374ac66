"""The tree of a population as a drawing: a lane for each trial over the steps, below the trial that it goes on from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dashboard.pages.shared.badges import trial_badge
from dashboard.pages.shared.numbers import count, number, setting
from dashboard.pages.shared.run_rows import run_url
from runs.sweeps.populations.lineage import Branch

LIMIT = 100  # lanes
ROW = 30  # pixels, of one lane
BAR = 16  # pixels from the top of a lane to its bar
RIGHT_HALF = 0.5  # a bar that starts here has its words before its end
LEAST = 0.004  # of the width, for a trial that has just begun


class Lane(NamedTuple):
    number: int
    url: str  # of its run, once it has one
    text: str
    words: str  # all of it, for a pointer that rests on it and for those who listen
    colour: str
    is_best: bool
    x: str
    width: str
    text_x: str
    anchor: str
    y: int
    bar_y: int
    parent_y: int | None  # of the parent's bar, from which a line leads down to this one


class LineageStage(NamedTuple):
    """A trial of those that led to the best one, and the steps that the best one has of it."""

    number: int
    url: str
    steps: str
    settings: list[tuple[str, str]]  # the label, and the value or what it was before and after


class Drawing(NamedTuple):
    lanes: list[Lane]
    height: int
    num_all: int
    stages: list[LineageStage]


def drawing(branches: Sequence[Branch], labels: Mapping[str, str], last_step: int) -> Drawing:
    """``labels`` are the fields' by path. The drawing is ``last_step`` wide, or as wide as the longest trial."""
    # The trials that led to the best one, and the newest ones, as many as there are lanes for.
    first = sorted(branches, key=lambda one: (one.is_on_best_line, one.number), reverse=True)
    shown = _ordered(first[:LIMIT])
    width = max([last_step, 1, *(one.end or 0 for one in branches)])
    places = {one.number: at for at, one in enumerate(shown)}
    lanes = [_lane(one, places, labels, width) for one in shown]
    return Drawing(lanes, len(lanes) * ROW, len(branches), _stages(branches, labels))


def _ordered(branches: Iterable[Branch]) -> list[Branch]:
    """Return the trials so that each is directly below its parent and the parent's earlier successors with theirs."""
    by_number = {one.number: one for one in branches}
    roots = [one for one in by_number.values() if one.parent not in by_number]
    waiting = sorted(roots, key=lambda one: one.number, reverse=True)
    found = []
    while waiting:
        one = waiting.pop()
        found.append(one)
        children = [by_number[child] for child in one.children if child in by_number]
        # The successor that began last comes first: no line then crosses the bar of another one.
        waiting += sorted(children, key=lambda child: (child.start, -child.number))
    return found


def _lane(one: Branch, places: Mapping[int, int], labels: Mapping[str, str], width: int) -> Lane:
    y, start = places[one.number] * ROW, one.start / width
    end = max(start, (one.end if one.end is not None else one.start) / width)
    above = places.get(one.parent) if one.parent is not None else None
    is_late = start >= RIGHT_HALF
    return Lane(
        number=one.number,
        url=run_url(one.run) if one.run else "",
        text=f"{one.number}: {number(one.value)}" if one.value is not None else str(one.number),
        words=_words(one, labels),
        colour=trial_badge(one.state).colour,
        is_best=one.is_on_best_line,
        x=_percent(start),
        width=_percent(max(LEAST, end - start)),
        text_x=_percent(end if is_late else start),
        anchor="end" if is_late else "start",
        y=y + BAR - 5,
        bar_y=y + BAR,
        parent_y=above * ROW + BAR if above is not None else None,
    )


def _words(one: Branch, labels: Mapping[str, str]) -> str:
    origin = f" goes on from trial {one.parent}" if one.parent is not None else ""
    parts = [f"Trial {one.number}{origin}, {_steps(one.start, one.end)}, {trial_badge(one.state).word}"]
    if one.value is not None:
        parts.append(f"value {number(one.value)}")
    return ", ".join([*parts, *(f"{label} {text}" for label, text in _changes(one, labels))])


def _stages(branches: Sequence[Branch], labels: Mapping[str, str]) -> list[LineageStage]:
    line = [one for one in branches if one.is_on_best_line]  # a successor has a higher number than its parent
    ends = [*(one.start for one in line[1:]), line[-1].end] if line else []
    return [
        LineageStage(
            number=one.number,
            url=run_url(one.run) if one.run else "",
            steps=_steps(one.start, end),
            settings=_changes(one, labels) if at else _settings(one, labels),
        )
        for at, (one, end) in enumerate(zip(line, ends, strict=True))
    ]


def _settings(one: Branch, labels: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(label, setting(one.parameters[path])) for path, label in labels.items() if path in one.parameters]


def _changes(one: Branch, labels: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(labels.get(path, path), f"{setting(old)} → {setting(new)}") for path, (old, new) in one.changed.items()]


def _steps(start: int, end: int | None) -> str:
    return f"steps {count(start)} to {count(end)}" if end is not None else f"from step {count(start)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
