"""What the ranks run: they log as scripts in trouble do, quickly and in no order, until somebody ends them.

Each rank forks once, as data loaders do, so that it is two producers. ``script.py SEED``
"""

from __future__ import annotations

import math
import os
import random
import sys
import time

import trainyard
from trainyard.spooling.writer import SpoolWriter

ODD = (math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1e308, 1 / 3)
STRIDES = (1, 1, 1, 1, 1, 1, 0, 0, -7, 40)  # most go on by one; some repeat, go back, or leap


def main() -> None:
    # Small files, of which many are deleted while the run goes on.
    SpoolWriter.__init__.__kwdefaults__["file_bytes"] = 64 * 1024
    run = trainyard.init()
    role = "parent" if os.fork() else "child"
    rank = os.environ["TRAINYARD_RANK"]
    choice = random.Random(f"{sys.argv[1]} {rank} {role}")
    step = 0
    while True:
        step += choice.choice(STRIDES)
        run.log({"train/loss": choice.random(), "train/noise": choice.gauss(0, 1)}, step=step)
        run.log({"odd": choice.choice(ODD)}, step=step, labels={"rank": rank, "role": role})
        if choice.random() < 0.005:  # a burst that no flusher can write call by call
            for _ in range(400):
                run.log({"burst": choice.random()}, step=step)
        time.sleep(0.002)


main()
