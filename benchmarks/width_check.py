"""`python -m benchmarks.width_check`: the coordinate check of muP for any widths, with and without muP, as tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from workers.training.recipes.gpt import OPTIMIZERS
from workers.training.startup.width_check import STEPS, coordinates, growth

WIDTHS = (64, 128, 256, 512)


def table(widths: Sequence[int], base_width: int | None, optimizer: str) -> list[str]:
    """Return the lines of a table: an activation each, its change at each width, and the power of its growth."""
    by_width = {width: coordinates(width, base_width, optimizer) for width in widths}
    lines = [f"{'width':12}" + "".join(f"{width:>10}" for width in widths) + "    grows as width to the"]
    for name in by_width[widths[0]]:
        row = {width: sizes[name] for width, sizes in by_width.items()}
        lines.append(f"{name:12}" + "".join(f"{size:10.4f}" for size in row.values()) + f"{growth(row):10.2f}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.width_check")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adamw")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)), help="the first is the base width")
    given = parser.parse_args()
    widths = [int(width) for width in given.widths.split(",")]
    for title, base_width in ((f"muP, base_width {widths[0]}", widths[0]), ("without muP", None)):
        print(f"{title}: change of activations after {STEPS} steps of {given.optimizer}")
        print("\n".join(table(widths, base_width, given.optimizer)), end="\n\n")


if __name__ == "__main__":
    main()
