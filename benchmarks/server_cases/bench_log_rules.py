"""What rules of the log cost on a node: lines moved from a rank's file into the spool, with them and without."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.table import Row, scaled
from trainyard.contract.orders import LogRule
from trainyard.contract.records import Begin
from trainyard.spooling.writer import SpoolWriter
from workers.supervisor.records.log_tail import LogTail
from workers.supervisor.records.rule_watch import RuleWatch

NUM_LINES = 200_000
ROUNDS = 5  # in turns: a clock that boosts for a moment meets both
NUM_RULES = 20  # beside those that ship, as many as a spec may have
LINE = "2026-01-01 12:00:00,{:03d} INFO train: step {} loss {:.4f} lr 3.0e-4 tok/s {}\n"


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="trainyard-bench-") as folder:
        log = Path(folder) / "rank-0.stdout"
        number = scaled(NUM_LINES)
        log.write_text("".join(LINE.format(n % 1000, n, 2 + 1 / (n + 1), 1000 + n % 777) for n in range(number)))
        plain: list[float] = []
        ruled: list[float] = []
        for turn in range(ROUNDS):
            plain.append(us_per_line(log, Path(folder) / f"plain-{turn}", number, None))
            ruled.append(us_per_line(log, Path(folder) / f"ruled-{turn}", number, RuleWatch(rules())))
    note = f"{NUM_RULES} rules beside those that ship; lines of 80 bytes that fit none; processor time"
    return [Row("one log line moved on a node, with rules", median(ruled), "us", median(plain), "no rules", note=note)]


def rules() -> list[LogRule]:
    return [
        LogRule(f"rule-{number}", rf"(?i)error {number}: \w+ (?:failed|lost) on host-\d+")
        for number in range(NUM_RULES)
    ]


def us_per_line(log: Path, spool: Path, number: int, watch: RuleWatch | None) -> float:
    """Return microseconds of processor time for each line."""
    writer = SpoolWriter(spool, begin=Begin(node="bench", role="supervisor"))
    tail = LogTail(log, 0, "stdout", rules=watch)
    began = time.process_time()
    while tail.move(writer):
        pass
    took_s = time.process_time() - began
    writer.close("exit")
    return 1e6 * took_s / number
