"""Rates as a run notes them: read back whole, refused where they are not."""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # plans.py stands beside the tests
from plans import RATES

from trainyard.planner import Rates, default_rates
from trainyard.planner.machines import GPUS, gpu_of, interpolated


@pytest.mark.parametrize("rates", [RATES, default_rates("cpu"), default_rates("gpu", "NVIDIA H200")])
def test_rates_come_back_as_they_were_noted(rates: Rates) -> None:
    assert Rates.from_document(json.loads(json.dumps(rates.as_document()))) == rates


def test_between_sizes_the_rate_follows_their_logarithms() -> None:
    curve = ((1e3, 10.0), (1e5, 1000.0))
    assert interpolated(curve, 1e4) == pytest.approx(100.0)
    assert (interpolated(curve, 1.0), interpolated(curve, 1e9)) == (10.0, 1000.0)


def test_a_precision_without_a_curve_is_as_much_quicker_as_its_peak() -> None:
    rates = default_rates("gpu", "NVIDIA H200")
    assert rates.rate("attention", 1e12, "bf16") / rates.rate("attention", 1e12) == pytest.approx(989 / 67)


def test_an_unknown_gpu_is_assumed_to_be_slow() -> None:
    assert default_rates("gpu", "NVIDIA H100 PCIe").peak_flops["bf16"] == 756e12
    assert default_rates("gpu", "something").peak_flops["fp32"] < default_rates("gpu", "NVIDIA L4").peak_flops["fp32"]


def test_the_more_ranks_share_pages_the_less_each_holds_of_them() -> None:
    rates = Rates.from_document({**RATES.as_document(), "shared_memory_bytes": 60.0, "sharers": 3.0})
    assert rates.base_bytes(2) == RATES.base_memory_bytes
    assert rates.base_bytes(1) - rates.base_bytes(2) == pytest.approx(10.0)


def test_what_watches_a_rank_shares_its_pages_too() -> None:
    document = {**RATES.as_document(), "shared_memory_bytes": 60.0, "sharers": 4.0, "forked": 1.0}
    rates = Rates.from_document(document)
    assert rates.base_bytes(1) == RATES.base_memory_bytes
    assert rates.base_bytes(1) - rates.base_bytes(2) == pytest.approx(60.0 / 4 - 60.0 / 5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 9}, "version is 9"),
        ({"version": 1}, "version is 1"),
        ({"matmul": []}, "length >= 1 - at `$.matmul`"),
        ({"matmul": [[2, 1], [1, 1]]}, "rising order"),
        ({"matmul": [[1, math.nan]]}, "> 0.0 - at `$.matmul[0][1]`"),
        ({"matmul": [[1, math.inf]]}, "at `$.matmul[0][1]`"),
        ({"operator_s": -1}, "> 0.0 - at `$.operator_s`"),
        ({"sharers": True}, "got `bool` - at `$.sharers`"),
        ({"base_memory_bytes": None}, "got `null` - at `$.base_memory_bytes`"),
        ({"links": {"all-reduce": {"ranks": 1, "latency_s": 0, "bytes_per_s": 1}}}, ">= 2 - at `$.links[...].ranks`"),
        ({"links": [1]}, "got `array` - at `$.links`"),
        ({"kinds": {"move": [[1]]}}, "got 1 - at `$.kinds[...][0]`"),
    ],
)
def test_what_is_no_document_of_rates_is_refused_by_the_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Rates.from_document({**RATES.as_document(), **changes})


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected `object`, got `null`"):
        Rates.from_document(None)


def test_what_older_measurements_have_beside_is_not_read() -> None:
    assert Rates.from_document({**RATES.as_document(), "pace": 1.2, "heap": 1.5, "fault_s": 4e-6}) == RATES


def test_fp16_is_as_quick_as_bf16_where_only_that_was_measured() -> None:
    """A calibration times products of bf16 alone; at the rate of fp32 a GPU would be ten times as slow in fp16."""
    kinds = {"matmul/bf16": ((1e6, 7e11),), "attention": ((1e6, 1e10),), "attention/bf16": ((1e6, 3e11),)}
    rates = msgspec.structs.replace(RATES, kinds=kinds, peak_flops={"fp32": 5e10, "bf16": 7e11})
    for kind in ("matmul", "attention", "convolution"):
        assert rates.rate(kind, 1e6, "fp16") == rates.rate(kind, 1e6, "bf16") > rates.rate(kind, 1e6)


@pytest.mark.parametrize(
    ("name", "words"),
    [("NVIDIA A100-SXM4-80GB", "A100"), ("NVIDIA A40-48Q", "A40"), ("NVIDIA RTX A4000", None), ("Tesla T4", "T4"),
     ("Quadro T400 4GB", None), ("NVIDIA A10G", "A10G"), ("NVIDIA RTX A1000", None), ("NVIDIA L40S", "L40S"),
     ("NVIDIA H200 NVL", "H200 NVL"), ("NVIDIA GH200 480GB", "GH200"), ("NVIDIA H100 80GB HBM3", "H100"),
     ("NVIDIA GeForce RTX 4090", "4090"), ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
     ("NVIDIA GeForce RTX 3090 Ti", None), ("Tesla V100-SXM2-16GB", "V100")],
)  # fmt: skip
def test_a_gpu_is_known_by_its_whole_words(name: str, words: str | None) -> None:
    assert gpu_of(name) == (GPUS[words] if words else None)
