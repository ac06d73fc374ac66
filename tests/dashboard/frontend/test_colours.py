"""The ten colours of lines stay apart for everybody: with all three kinds of cones, and with one of them missing."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings

TOKENS = (Path(settings.BASE_DIR) / "static" / "css" / "tokens.css").read_text()
# Distances in Oklab (Ottosson 2020), where 0.02 is what one just sees. Before, two of them were 0.005 apart.
LEAST = {"light": 0.06, "dark": 0.1}
LEAST_CONTRAST = 3  # of a line to what it is drawn on (WCAG 1.4.11)
# What is seen with one kind of cones missing, in linear sRGB (Machado, Oliveira and Fernandes 2009, severity 1).
EYES = {
    "all three": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
CONES = np.array([[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]])
OPPONENTS = np.array([[0.21045, 0.79362, -0.00407], [1.97800, -2.42859, 0.45059], [0.02590, 0.78277, -0.80868]])


def linear(hexadecimal: str) -> np.ndarray:
    values = np.array([int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def token(name: str, theme: str) -> np.ndarray:
    found = re.search(rf"--{name}: light-dark\((#\w{{6}}), (#\w{{6}})\)", TOKENS)
    assert found, name
    return linear(found[1 if theme == "light" else 2])


def seen(colour: np.ndarray, eyes: str) -> np.ndarray:
    return OPPONENTS @ np.cbrt(CONES @ np.clip(np.array(EYES[eyes]) @ colour, 0, 1))


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("theme", LEAST)
def test_no_two_colours_look_alike(theme: str, eyes: str) -> None:
    colours = {index: seen(token(f"series-{index}", theme), eyes) for index in range(1, 11)}
    apart = {(a, b): float(np.linalg.norm(colours[a] - colours[b])) for a, b in combinations(colours, 2)}
    assert {pair: round(gap, 3) for pair, gap in apart.items() if gap < LEAST[theme]} == {}


@pytest.mark.parametrize("ground", ["surface", "ground"])
@pytest.mark.parametrize("theme", LEAST)
def test_every_line_is_seen_on_what_it_is_drawn_on(theme: str, ground: str) -> None:
    def light(colour: np.ndarray) -> float:
        return float(colour @ (0.2126, 0.7152, 0.0722)) + 0.05

    under = light(token(ground, theme))
    lights = {index: light(token(f"series-{index}", theme)) for index in range(1, 11)}
    contrasts = {index: max(one, under) / min(one, under) for index, one in lights.items()}
    assert {index: round(one, 2) for index, one in contrasts.items() if one < LEAST_CONTRAST} == {}
