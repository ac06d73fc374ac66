"""Gauges of a node with small charts, its checks as rows, and the time of runs as a bar of its parts."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dashboard.pages.shared.estimate import EstimateBar, slices_of
from runs.records.time_use.split import TimeUse
from runs.values.columns import Check, CheckState
from trainyard.contract.machines import NEARLY_FULL, GpuHealth, Health, HealthSample
from trainyard.formats.figures import duration, number, percent, size, speed

WIDTH, HEIGHT = 240.0, 48.0
Read = Callable[[Health], float | None]


class Gauge(NamedTuple):
    label: str
    value: str
    detail: str
    share: float | None  # 0 to 1; None where there is no whole
    is_high: bool
    path: str  # of the line, in a box of WIDTH by HEIGHT
    area: str  # of what is under it
    top: str  # what the upper edge of the chart stands for
    note: str = ""
    memory_path: str = ""  # of a GPU: the line of its memory beside that of its use


def gauges(health: Health | None, history: Sequence[HealthSample], since: float, until: float) -> list[Gauge]:
    """``history`` has samples with ``at`` between the two Unix times, oldest first."""
    now = health or (history[-1] if history else None)
    return _Machine(now, history, since, until).gauges() if now is not None else []


class _Machine(NamedTuple):
    now: Health
    history: Sequence[HealthSample]
    since: float
    until: float

    def gauges(self) -> list[Gauge]:
        made = [
            self._share("CPU", lambda one: one.cpu_percent, f"load {number(self.now.load)}"),
            self._part("Memory", lambda one: one.memory_used_bytes, lambda one: one.memory_bytes),
            self._part("Disk", lambda one: one.disk_used_bytes, lambda one: one.disk_bytes),
            self._rate("Network in", lambda one: one.network_received_bytes_per_s),
            self._rate("Network out", lambda one: one.network_sent_bytes_per_s),
        ]
        return made + [self._gpu(gpu) for gpu in self.now.gpus or []]

    def _gpu(self, gpu: GpuHealth) -> Gauge:
        facts = [
            number(gpu.temperature_c, "°C") if gpu.temperature_c is not None else "",
            number(gpu.power_w, "W") if gpu.power_w is not None else "",
        ]
        held = f"memory {size(gpu.memory_used_bytes)} of {size(gpu.memory_bytes)}" if gpu.memory_bytes else ""
        made = self._share(f"GPU {gpu.index}", _of_gpu(gpu.index, lambda one: one.utilization_percent), held)
        memory = _of_gpu(gpu.index, lambda one: _share_of(one.memory_used_bytes, one.memory_bytes))
        return made._replace(note=" · ".join(filter(None, facts)), memory_path=self._line(memory, 100.0)[0])

    def _share(self, label: str, read: Read, detail: str) -> Gauge:
        value = read(self.now)
        share = None if value is None else value / 100
        within = None if share is None else min(1.0, max(0.0, share))
        return Gauge(label, percent(share), detail, within, False, *self._line(read, 100.0), "100 %")

    def _part(self, label: str, used: Read, whole: Read) -> Gauge:
        detail = f"{size(used(self.now))} of {size(whole(self.now))}"
        made = self._share(label, lambda one: _share_of(used(one), whole(one)), detail)
        return made._replace(is_high=made.share is not None and made.share >= NEARLY_FULL)

    def _rate(self, label: str, read: Read) -> Gauge:
        top = max([1024.0, *(value for one in self.history if (value := read(one)) is not None)])
        return Gauge(label, speed(read(self.now)), "", None, False, *self._line(read, top), speed(top))

    def _line(self, read: Read, top: float) -> tuple[str, str]:
        return line([(one.at, read(one)) for one in self.history], self.since, self.until, top)


def line(values: Sequence[tuple[float, float | None]], since: float, until: float, top: float) -> tuple[str, str]:
    """SVG paths of the line and of the area under it. Where samples are missing for long the line is broken."""
    gap_s = max(30.0, 3 * (until - since) / 120)
    pieces: list[list[tuple[float, float]]] = []
    last: float | None = None
    for at, value in values:
        if value is None:
            last = None
            continue
        x = (at - since) / max(1e-9, until - since) * WIDTH
        y = HEIGHT - min(1.0, max(0.0, value / top)) * (HEIGHT - 2) - 1
        if last is None or at - last > gap_s:
            pieces.append([])
        pieces[-1].append((x, y))
        last = at
    drawn = [piece for piece in pieces if len(piece) > 1]
    strokes = ["M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in piece) for piece in drawn]
    areas = [
        f"{stroke}L{piece[-1][0]:.1f},{HEIGHT:.0f}L{piece[0][0]:.1f},{HEIGHT:.0f}Z"
        for stroke, piece in zip(strokes, drawn, strict=True)
    ]
    return "".join(strokes), "".join(areas)


def _of_gpu(index: int | None, read: Callable[[GpuHealth], float | None]) -> Read:
    return lambda health: next((read(gpu) for gpu in health.gpus or [] if gpu.index == index), None)


def _share_of(used: float | None, whole: float | None) -> float | None:
    return 100.0 * used / whole if used is not None and whole else None


# In the order of the bar. Colours are of series-N; the same part has the same colour everywhere.
PARTS = {
    "productive_s": ("Productive", "steps that are trained once", 3),
    "checkpoint_s": ("Checkpoints", "steps waited for a checkpoint to be saved", 5),
    "recomputed_s": ("Trained again", "steps that an earlier attempt had trained already", 2),
    "detection_s": ("Noticing failures", "from a failure until it was known", 7),
    "restart_s": ("Restarting", "from a failure to the first step of the next attempt", 6),
    "starting_s": ("Starting", "from the placing to the first step", 1),
    "queued_s": ("Waiting", "for a place on the cluster", 9),
    "paused_s": ("Paused", "by a person", 4),
}
LEAST_SHARE = 0.0005  # of all the time: what is less is not drawn


class TimeView(NamedTuple):
    """The bar, and the productive share of the time in words."""

    bar: EstimateBar
    goodput: str


def time_view(time: TimeUse, label: str) -> TimeView | None:
    """Return what is drawn; nothing where no time has passed."""
    if time.total_s <= 0:
        return None
    seconds, least_s = time.by_name(), LEAST_SHARE * time.total_s
    values = [(seconds[name] if seconds[name] >= least_s else 0.0, *words) for name, words in PARTS.items()]
    bar = EstimateBar(label, duration(time.total_s), "", slices_of(values, time.total_s, duration))
    return TimeView(bar, percent(time.goodput))


MAX_ROWS = 200
COLOURS = {CheckState.OK: "green", CheckState.WARN: "amber", CheckState.FAIL: "red"}
ORDER = [CheckState.FAIL, CheckState.WARN, CheckState.OK]
FORMATS = {"bytes": size, "B/s": speed}


class CheckTable(NamedTuple):
    """``summary``: how many there are of each state; ``colour``: of the worst one."""

    rows: list[dict[str, str]]
    num_hidden: int
    summary: str
    colour: str

    @property
    def is_open(self) -> bool:
        """Return whether it is shown unasked: something fails."""
        return self.colour == "red"


def check_table(checks: Sequence[Check]) -> CheckTable:
    found = sorted(checks, key=lambda one: (ORDER.index(one.state), one.node, one.name))
    counts = [(sum(one.state == state for one in found), state) for state in ORDER]
    words = ", ".join(f"{number} {state}" for number, state in counts if number)
    colour = COLOURS[found[0].state] if found else "grey"
    return CheckTable([_row(one) for one in found[:MAX_ROWS]], max(0, len(found) - MAX_ROWS), words, colour)


def _row(one: Check) -> dict[str, str]:
    return {
        "key": "-".join((one.node, one.name, one.peer, one.sentence[:60])),
        "name": one.name.replace("-", " "),
        "node": one.node,
        "state": str(one.state),
        "colour": COLOURS[one.state],
        "sentence": one.sentence,
        "value": _figure(one.value, one.unit),
        "limit": _figure(one.limit, one.unit),
    }


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "s":
        return f"{round(1000 * value, 2) + 0.0:,.2f} ms" if abs(value) < 1 else f"{value:,.1f} s"
    return FORMATS[unit](value) if unit in FORMATS else number(value, unit)
