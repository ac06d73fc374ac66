"""Speed of an elastic run by its number of nodes, from its own steps, and what a further node gains. Pure.

A step takes ``fixed_s + divided_s / nodes``: what every rank does whatever their number, such as communication, and
what they divide. That is Amdahl's law (1967), the form of Peng et al., "Optimus: an efficient dynamic resource
scheduler for deep learning clusters", EuroSys 2018, without its terms for parameter servers. As there, neither part is
below zero, and they are fitted to the sizes that the run was measured at. The global batch stays at a change, so a step
of half the time is twice the samples/s. Where one size was measured, or none, a tenth of a step on one node is taken as
fixed.
"""

from collections.abc import Mapping
from statistics import fmean, linear_regression
from typing import NamedTuple

from trainyard.formats.words import listed

FIXED = 0.1


class Speed(NamedTuple):
    fixed_s: float
    divided_s: float
    measured: Mapping[int, float]  # seconds of a step, by the number of nodes

    def step_s(self, nodes: int) -> float:
        return self.measured.get(nodes) or self.fixed_s + self.divided_s / nodes

    def times(self, before: int, after: int) -> float:
        """Return how many times the samples/s of ``before`` nodes it trains on ``after``."""
        return self.step_s(before) / self.step_s(after)

    def gain(self, least: int, before: int, after: int) -> float:
        """Return the samples/s that each node between the two sizes adds, as a part of those of a node at its least
        size: samples of different trainings do not compare, these parts do. The law's, which falls with each node."""
        rates = [1 / (self.fixed_s + self.divided_s / nodes) for nodes in (least, before, after)]
        return round((rates[2] - rates[1]) / (after - before) / (rates[0] / least), 6)  # equal ones are equal

    def basis(self, *sizes: int) -> str:
        """Say where ``times`` of the sizes comes from."""
        if all(size in self.measured for size in sizes):
            return "as it measured on both"
        if len(self.measured) > 1:
            return f"by its steps on {listed([str(size) for size in sorted(self.measured)])} nodes"
        return "if nine tenths of a step divide among nodes"


def speed_of(measured: Mapping[int, float]) -> Speed:
    """Return the law that fits the seconds of a step by the number of nodes, with least squares."""
    points = [(1 / nodes, seconds) for nodes, seconds in measured.items()] or [(1.0, 1.0)]
    if len(points) == 1:
        ((part, seconds),) = points
        whole = seconds / (FIXED + (1 - FIXED) * part)
        return Speed(FIXED * whole, (1 - FIXED) * whole, measured)
    parts, times = zip(*points, strict=True)
    divided, fixed = linear_regression(parts, times)
    if divided < 0:
        return Speed(fmean(times), 0.0, measured)
    if fixed < 0:
        return Speed(0.0, linear_regression(parts, times, proportional=True).slope, measured)
    return Speed(fixed, divided, measured)


ASSUMED = speed_of({})
