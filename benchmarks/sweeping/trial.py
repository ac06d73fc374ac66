"""A trial that costs little beside what is around it: a small net on the digits, the same for every tool.

``python trial.py --lr 0.1 --width 32 --steps 40`` prints when its first and its last step ended, as JSON. With
``TRAINYARD_RUN`` in the environment it logs its loss to Trainyard as well.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable


def train(lr: float, width: int, steps: int) -> tuple[float, float, float]:
    """Return the last loss, and the times at which the first and the last step ended."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = load_digits()
    inputs = torch.tensor(data.data, dtype=torch.float32) / 16.0
    targets = torch.tensor(data.target)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    log = logger()
    ended = []
    value = float("nan")
    for step in range(1, steps + 1):
        rows = torch.arange(64 * step, 64 * (step + 1)) % len(targets)
        loss = nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        value = loss.item()
        log(value, step)
        ended.append(time.time())
    return value, ended[0], ended[-1]


def logger() -> Callable[[float, int], None]:
    if "TRAINYARD_RUN" not in os.environ:
        return lambda value, step: None
    import trainyard

    run = trainyard.init()
    return lambda value, step: run.log({"loss": value}, step=step)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    print(json.dumps(train(given.lr, given.width, given.steps)), flush=True)
