"""A node's health as gauges: the value now, its share of the whole, and a small chart of how it went."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from trainyard.contract.machines import GpuHealth, Health, HealthSample
from trainyard.formats.figures import number, percent, size, speed

WIDTH, HEIGHT = 240.0, 48.0
NEARLY_FULL = 0.95
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
    if health is None and history:
        health = history[-1]
    if health is None:
        return []
    made = [
        _share("CPU", health, history, since, until, lambda one: one.cpu_percent, f"load {number(health.load)}"),
        _part("Memory", health, history, since, until, lambda one: one.memory_used_bytes, lambda one: one.memory_bytes),
        _part("Disk", health, history, since, until, lambda one: one.disk_used_bytes, lambda one: one.disk_bytes),
        _rate("Network in", health, history, since, until, lambda one: one.network_received_bytes_per_s),
        _rate("Network out", health, history, since, until, lambda one: one.network_sent_bytes_per_s),
    ]
    made += [_gpu(gpu, health, history, since, until) for gpu in health.gpus or []]
    return made


def _gpu(gpu: GpuHealth, health: Health, history: Sequence[HealthSample], since: float, until: float) -> Gauge:
    facts = [
        number(gpu.temperature_c, "°C") if gpu.temperature_c is not None else "",
        number(gpu.power_w, "W") if gpu.power_w is not None else "",
    ]
    held = f"memory {size(gpu.memory_used_bytes)} of {size(gpu.memory_bytes)}" if gpu.memory_bytes else ""
    use = _of_gpu(gpu.index, lambda one: one.utilization_percent)
    memory = _of_gpu(gpu.index, lambda one: _share_of(one.memory_used_bytes, one.memory_bytes))
    made = _share(f"GPU {gpu.index}", health, history, since, until, use, held)
    path = line([(one.at, memory(one)) for one in history], since, until, 100.0)[0]
    return made._replace(note=" · ".join(filter(None, facts)), memory_path=path)


def _share(
    label: str, health: Health, history: Sequence[HealthSample], since: float, until: float, read: Read, detail: str
) -> Gauge:
    value = read(health)
    path, area = line([(one.at, read(one)) for one in history], since, until, 100.0)
    words = percent(None if value is None else value / 100)
    share = None if value is None else min(1.0, max(0.0, value / 100))
    return Gauge(label, words, detail, share, False, path, area, "100 %")


def _part(
    label: str, health: Health, history: Sequence[HealthSample], since: float, until: float, used: Read, whole: Read
) -> Gauge:
    detail = f"{size(used(health))} of {size(whole(health))}"
    made = _share(label, health, history, since, until, lambda one: _share_of(used(one), whole(one)), detail)
    return made._replace(is_high=made.share is not None and made.share >= NEARLY_FULL)  # a busy processor is no trouble


def _rate(label: str, health: Health, history: Sequence[HealthSample], since: float, until: float, read: Read) -> Gauge:
    values = [(one.at, read(one)) for one in history]
    top = max([value for _, value in values if value is not None] + [1024.0])
    path, area = line(values, since, until, top)
    value = read(health)
    return Gauge(label, speed(value), "", None, False, path, area, speed(top))


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
