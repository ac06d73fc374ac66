"""Trials and bars of a long sweep that are drawn: a chart shows some thousands, and must not lose what stands out."""

from collections.abc import Collection, Iterator, Sequence

from runs.sweeps.analysis.best import MAXIMIZE, TrialPoint, is_number
from runs.sweeps.analysis.slots import Timeline

MOST = 2_000  # trials; more lines are one surface
MOST_BARS = 3_000


def thinned(
    trials: Sequence[TrialPoint], paths: Sequence[str], direction: str, always: Collection[int], *, most: int = MOST
) -> list[TrialPoint]:
    """Return at most about ``most`` of the trials, in their order: those whose number is in ``always``, both ends of
    each field and objective, the best ones, and of the others an even choice over their values."""
    if len(trials) <= most:
        return list(trials)
    sign = -1.0 if direction == MAXIMIZE else 1.0
    ranked = sorted((one for one in trials if is_number(one.value)), key=lambda one: sign * (one.value or 0.0))
    kept = {*always, *_ends(trials, paths), *(one.number for one in (*ranked[: most // 4], *ranked[-1:]))}
    rest = [one for one in ranked if one.number not in kept]
    rest += [one for one in trials if not is_number(one.value) and one.number not in kept]
    room = min(len(rest), max(0, most - len(kept)))
    kept.update(rest[at * len(rest) // room].number for at in range(room))
    return [one for one in trials if one.number in kept]


def _ends(trials: Sequence[TrialPoint], paths: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the trials with the least and the greatest value of each objective and field."""
    places = range(max((len(one.values) for one in trials), default=0))
    columns = [[(one.values[place], one.number) for one in trials if place < len(one.values)] for place in places]
    columns += [[(value, t.number) for t in trials if is_number(value := t.parameters.get(path))] for path in paths]
    for column in filter(None, columns):
        yield from (min(column)[1], max(column)[1])


def thinned_bars(found: Timeline, *, most: int = MOST_BARS) -> Timeline:
    """Return the timeline with at most about ``most`` bars: of those that begin within a pixel of a lane, the
    longest."""
    if len(found.bars) <= most:
        return found
    first, last = min(one.start for one in found.bars), max(one.end for one in found.bars)
    pixel = max(1e-9, (last - first) / max(1, most // max(1, len(found.lanes))))
    longest: dict[tuple[int, int], int] = {}
    for place, one in enumerate(found.bars):
        key = (one.lane, int((one.start - first) / pixel))
        before = longest.get(key)
        if before is None or one.end - one.start > found.bars[before].end - found.bars[before].start:
            longest[key] = place
    return Timeline(found.lanes, [found.bars[place] for place in sorted(longest.values())])
