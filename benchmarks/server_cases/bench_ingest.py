"""From the stream until committed and readable: the ingest process itself, beside what its libraries allow.

A second process fills the stream with sealed entries of real frames, ten series each, as fast as it takes them; the
clock runs from its first entry until the database says that every point is committed. The limits are a bare prototype
(decode, compress, insert, acknowledge) and a bare reader of the same stream, both met with the same entries.
"""

from __future__ import annotations

from benchmarks import goals
from benchmarks.load.fill import Plan
from benchmarks.load.flow import senders, through_ingest, through_prototype
from benchmarks.metrics_stack import MetricsStack, metrics_stack
from benchmarks.table import Goal, Row, middle, scaled, spread_of

NUM_SERIES = 10
REPEATS = 3
SIZES = (
    (1_000, 1_600_000, goals.INGEST_LARGE_FRAMES),
    (20, 800_000, goals.INGEST_SMALL_FRAMES),
)  # rows in a frame, rows in all
MEMORY_RUNS, MEMORY_SERIES, MEMORY_ROWS = 100, 200, 200


def rows() -> list[Row]:
    with metrics_stack() as place:
        found = [speed(place, *size) for size in SIZES]
        memory = [row for _, row in found]
        return [row for row, _ in found] + memory + [memory_of_many(place)]


def speed(place: MetricsStack, rows_per_frame: int, num_rows: int, wanted: Goal) -> tuple[Row, Row]:
    """Return the row of the speed and that of the memory meanwhile."""
    ours: list[float] = []
    per_cpu_s: list[float] = []
    limits: dict[str, list[float]] = {"store": [], "read": []}
    pss = 0
    for _ in range(scaled(REPEATS)):
        plan = Plan(str(place.socket), senders(place, 1), NUM_SERIES, scaled(num_rows, 1_000), rows_per_frame)
        with place.ingest() as process:
            seconds, watch = through_ingest(place, plan, process)
        check_readable(place, plan)
        pss = max(pss, watch.pss)
        ours.append(plan.num_points / seconds)
        per_cpu_s.append(plan.num_points / watch.used_cpu_s)
        for task, speeds in limits.items():
            speeds.append(plan.num_points / through_prototype(place, plan, task))
    what = f"ingest, frames of {rows_per_frame:,} points a series"
    return (
        Row(f"{what}: until committed and readable", middle(ours), "points/s", middle(limits["store"]),
            "a bare prototype", is_less_better=False, goal=wanted, spread=spread_of(ours),
            others={"a bare reader of the stream": middle(limits["read"]), "ours, by its CPU time": middle(per_cpu_s)}),
        memory_row(f"{what}: memory of the process", pss, plan),
    )  # fmt: skip


def check_readable(place: MetricsStack, plan: Plan) -> None:
    """Raise SystemExit unless every point is in the buckets that the API answers."""
    for sender in plan.senders:
        asked: dict[str, str | int] = {"name": "train/metric_0", "points": 100}
        answer = place.client().get(f"/api/v1/runs/{sender.run}/series/data", asked).json()
        columns = answer["series"][0]
        read = sum(columns["count"]) if columns["kind"] == "buckets" else len(columns["step"])
        if read != plan.num_rows:
            raise SystemExit(f"{read:,} of {plan.num_rows:,} points of a series can be read")


def memory_of_many(place: MetricsStack) -> Row:
    """Many runs with many series, each sending at once."""
    num_rows = scaled(MEMORY_ROWS, 20)
    plan = Plan(str(place.socket), senders(place, MEMORY_RUNS), MEMORY_SERIES, num_rows, 20)
    with place.ingest() as process:
        _, watch = through_ingest(place, plan, process)
    what = f"ingest, {MEMORY_RUNS} runs of {MEMORY_SERIES} series each: memory of the process"
    return memory_row(what, watch.pss, plan)


def memory_row(what: str, pss: int, plan: Plan) -> Row:
    sent = plan.num_points * 8 + plan.num_points // plan.num_series * 16
    return Row(what, pss / 1e6, "MB", sent / 1e6, "what was sent, as plain columns", goal=goals.INGEST_MEMORY,
               note="the largest PSS")  # fmt: skip
