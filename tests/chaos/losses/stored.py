"""What the store of another home holds, read by a process of its own: ``python -m tests.chaos.losses.stored RUN…``

It prints a line of JSON for each series and attempt: its key, and each different point with how often it is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.losses.reporter import NAME as OVER_REST
from tests.points import ANY_ATTEMPT, Points, Row, SeriesKey, gathered, stored_points
from tests.up_process import OURS, ROOT


def read_points(home: Path, runs: list[str]) -> Points:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    environment |= {"TRAINYARD_HOME": str(home), "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.losses.stored", *runs], cwd=ROOT, env=environment, check=True,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return gathered(_read(line) for line in done.stdout.splitlines() if line)


def _read(line: str) -> tuple[SeriesKey, Counter[Row]]:
    (run, attempt, name, labels), counted = json.loads(line)
    key = SeriesKey(run, ANY_ATTEMPT if name == OVER_REST else attempt, name, labels)
    return key, Counter({(step, at, value): count for step, at, value, count in counted})


def lines(runs: list[str]) -> Iterator[str]:
    for run in runs:
        for key, counted in stored_points(run).items():
            yield json.dumps([key, [(*row, count) for row, count in counted.items()]])


if __name__ == "__main__":
    import django

    django.setup()
    print(*lines(sys.argv[1:]), sep="\n")
