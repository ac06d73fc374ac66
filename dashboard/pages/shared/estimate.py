"""An estimate as the launch page draws it: bars, each part with its number, and sentences."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dashboard.pages.shared.field_text import as_text
from trainyard.formats.figures import between, count, duration, number, percent, rate, scaled, seconds, size
from trainyard.planner import Estimate, Memory, Proposal, StepTime
from trainyard.planner.results import Fit
from trainyard.spec import RecipeSpec, fields_of

MAX_BARS = 6
TONES = {Fit.FITS: "", Fit.MAY_NOT_FIT: "amber", Fit.DOES_NOT_FIT: "red"}
ASSUMED = "Speeds are assumed"  # how a warning begins that the page says with a link
# Colours are of series-N; the same part has the same colour in every bar.
MEMORY_PARTS = {
    "base": ("Process", "Python, PyTorch and its buffers", 9),
    "parameters": ("Parameters", "the weights of this rank", 1),
    "gradients": ("Gradients", "one for each weight", 2),
    "optimizer": ("Optimizer", "moments that the optimizer keeps", 3),
    "activations": ("Activations", "what the forward pass keeps for the backward pass", 4),
    "copies": ("Copies", "of weights, for a strategy or a checkpoint", 5),
    "margin": ("Margin", "what the allocator keeps of memory that comes and goes", 6),
}
TIME_PARTS = {
    "compute": ("Compute", "forward and backward", 1),
    "communication": ("Communication", "that no computing hides", 2),
    "bubble": ("Bubble", "waiting for other pipeline stages", 5),
    "optimizer": ("Optimizer", "updating the weights", 3),
}


class Slice(NamedTuple):
    """A part of a bar. ``left`` and ``width`` are percent of the bar, as SVG takes them."""

    name: str
    words: str
    colour: int
    text: str
    left: str
    width: str


class EstimateBar(NamedTuple):
    label: str
    total: str
    range: str  # in which the total lies: "255 to 345 MiB"
    slices: list[Slice]
    limit: str = ""
    share: float = 0.0  # of the limit that the high end of the range takes; may be above 1
    tone: str = ""  # red: does not fit; amber: may not fit

    @property
    def description(self) -> str:
        """The whole bar in words, for screen readers."""
        return f"{self.label}: {', '.join(f'{one.name} {one.text}' for one in self.slices)}"

    @property
    def percent(self) -> str:
        return percent(self.share) if self.share >= 0.01 else "less than 1 %"


class Suggestion(NamedTuple):
    """A better plan: ``fields`` is the text of each field of the form that it changes."""

    sentence: str
    changes: str
    fields: dict[str, str]
    time: str
    memory: str

    @property
    def fields_json(self) -> str:
        return json.dumps(self.fields)


class EstimateView(NamedTuple):
    time: EstimateBar | None  # None where a step was measured
    memory: list[EstimateBar]
    num_more: int
    facts: list[tuple[str, str]]
    warnings: Sequence[str]


def view(spec: RecipeSpec, estimate: Estimate, step_s: float | None = None) -> EstimateView:
    """``step_s`` is how long a step of the same plan took, where that is known."""
    bars = memory_bars(spec, estimate)
    time = step_s or estimate.step_time.total
    seconds = time * spec.train.steps
    hours = seconds * spec.world_size() / 3600
    facts = [
        ("Throughput", rate(estimate.units_per_second * estimate.step_time.total / time, estimate.unit)),
        (f"All {count(spec.train.steps)} step{'' if spec.train.steps == 1 else 's'}", f"about {duration(seconds)}"),
        ("Slot-hours", number(hours) if hours >= 0.01 else "less than 0.01"),
        ("Sent in a step", f"{size(estimate.sent_bytes)} by the busiest rank" if estimate.sent_bytes else "nothing"),
        *([("Pipeline bubble", f"{percent(estimate.bubble)} of a step")] if estimate.bubble else []),
        ("Parameters", number(estimate.num_parameters)),
        ("Model FLOPs", f"{scaled(estimate.flops_per_step, 'FLOP')} in a step"),
    ]
    warnings = [one for one in estimate.warnings if not one.startswith(ASSUMED)]
    predicted = None if step_s else time_bar(estimate)
    return EstimateView(predicted, bars[:MAX_BARS], max(0, len(bars) - MAX_BARS), facts, warnings)


def overflow(bars: Sequence[EstimateBar]) -> str:
    """A sentence about the rank that lacks most memory; empty where all have what they need. ``bars`` are of memory."""
    fullest = bars[0] if bars else None
    if fullest is None or not fullest.tone:
        return ""
    ranks = fullest.label[0].lower() + fullest.label[1:]
    return (
        f"It {'does' if fullest.tone == 'red' else 'may'} not fit into memory: {ranks} would need {fullest.range}, "
        f"and the node has {fullest.limit} for a rank."
    )


def time_bar(estimate: Estimate) -> EstimateBar:
    return _bar("One step", estimate.step_time, TIME_PARTS, seconds)


def _bar(label: str, whole: Memory | StepTime, parts: Mapping[str, tuple[str, str, int]], words: Any) -> EstimateBar:
    slices = slices_of([(getattr(whole, name), *about) for name, about in parts.items()], whole.total, words)
    return EstimateBar(label, words(whole.total), between(whole.low, whole.high, words), slices)


def memory_bars(spec: RecipeSpec, estimate: Estimate) -> list[EstimateBar]:
    """Return a bar for each kind of rank, the fullest first."""
    kinds: dict[tuple[Any, ...], list[int]] = {}
    for rank, (memory, limit) in enumerate(zip(estimate.memory, estimate.memory_limits, strict=True)):
        key = (*(round(getattr(memory, part) / 2**16) for part in MEMORY_PARTS), round(limit / 2**16))
        kinds.setdefault(key, []).append(rank)
    bars = []
    for ranks in kinds.values():
        memory, limit = estimate.memory[ranks[0]], estimate.memory_limits[ranks[0]]
        bar = _bar(kind_of(spec, ranks), memory, MEMORY_PARTS, size)
        if limit > 0:
            bar = bar._replace(limit=size(limit), share=memory.high / limit, tone=TONES[memory.fit(limit)])
        bars.append(bar)
    return sorted(bars, key=lambda bar: -bar.share)


def kind_of(spec: RecipeSpec, ranks: Sequence[int]) -> str:
    """Return the name of such ranks: by their stage, where that is what makes them differ."""
    world = spec.world_size()
    if len(ranks) == world:
        return "The one rank" if world == 1 else f"Each of the {count(world)} ranks"
    mesh = spec.mesh()
    stages = {mesh.coordinates_of(rank)["pipeline"] for rank in ranks}
    words = f"{'Rank' if len(ranks) == 1 else 'Ranks'} {spans(ranks)}"
    return f"{words}, stage {stages.pop()}" if mesh.stages > 1 and len(stages) == 1 else words


def spans(ranks: Iterable[int]) -> str:
    """``0, 1, 2, 5`` -> ``0 to 2, 5``; what is many is cut short."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank])
    ends = [(run[0], run[-1]) for run in runs]
    words = [str(a) if a == b else f"{a} {'to' if b - a > 1 else 'and'} {b}" for a, b in ends]
    return ", ".join(words[:4]) + (", …" if len(words) > 4 else "")


def suggestion(spec: RecipeSpec, one: Proposal, pace: float) -> Suggestion:
    """``pace`` is how long a step takes, in the planner's estimates of it."""
    fields = fields_of(spec.task.recipe)
    fullest, time = max((memory.high for memory in one.estimate.memory), default=0.0), one.estimate.step_time
    texts = {path: as_text(fields[path], value) for path, value in one.changes.items() if path in fields}
    return Suggestion(
        one.sentence if texts else "",
        ", ".join(f"{fields[path].label.lower()} {_shown(one.changes[path])}" for path in texts),
        texts,
        between(time.low * pace, time.high * pace, seconds),
        size(fullest),
    )


def slices_of(values: Sequence[tuple[float, str, str, int]], total: float, words: Any) -> list[Slice]:
    made, left = [], 0.0
    for value, name, help_, colour in values:
        width = 100 * value / total if total > 0 else 0.0
        if value > 0:
            made.append(Slice(name, help_, colour, words(value), f"{left:.2f}%", f"{width:.2f}%"))
        left += width
    return made


def _shown(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
