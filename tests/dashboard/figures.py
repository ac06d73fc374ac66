"""What figures look like: the function, what it is given, what it says. The server and the browser both keep to it."""

from __future__ import annotations

from typing import Any

CASES: list[tuple[str, list[Any], str]] = [
    *(("number", [value], words) for value, words in [
        (0, "0"), (4, "4"), (0.8123, "0.812"), (12.345, "12.3"), (123.4, "123"), (112.5, "113"), (-112.5, "−113"),
        (999.7, "1.00k"), (12_400, "12.4k"), (12_034, "12.0k"), (12_000, "12k"), (3_200_000, "3.20M"),
        (-0.5, "−0.500"), (0.0003, "3e−4"), (0.000612, "6.12e−4"), (9.999e-4, "1e−3"), (1.125e-5, "1.13e−5"),
        (1.5e21, "1.5e21"), ("NaN", "NaN"), ("-Infinity", "−∞"), (None, "–"),
    ]),
    ("number", [12_400, "W"], "12.4k W"),
    *(("scaled", [value, "FLOP/s"], words) for value, words in [
        (8_530_000_000, "8.53 GFLOP/s"), (72.2e9, "72.2 GFLOP/s"), (950, "950 FLOP/s"), (1.97e15, "1.97 PFLOP/s"),
        (2e18, "2 EFLOP/s"), (0, "0 FLOP/s"), (0.25, "0.250 FLOP/s"), ("NaN", "NaN FLOP/s"), (None, "–"),
    ]),
    *(("count", [value], words) for value, words in [(1240, "1,240"), (0, "0"), (1e6, "1,000,000"), (None, "–")]),
    *(("size", [value], words) for value, words in [
        (0, "0 B"), (512, "512 B"), (1536, "1.5 KiB"), (1023.9 * 1024, "1.0 MiB"), (3_330_000_000, "3.1 GiB"),
        (99.96 * 1024**2, "100 MiB"), (200 * 1024**2, "200 MiB"), ("NaN", "NaN"), (None, "–"),
    ]),
    *(("speed", [value], words) for value, words in [(3_330_000_000, "3.1 GiB/s"), (0, "0 B/s"), (None, "–")]),
    *(("rate", [value, unit], words) for value, unit, words in [
        (12_400, "tokens", "12.4k tok/s"), (950, "samples", "950 samples/s"), (2.5, "rows", "2.50 rows/s"),
        (None, "tokens", "–"),
    ]),
    *(("percent", [share], words) for share, words in [
        (0.384, "38 %"), (0.046, "4.6 %"), (1.0, "100 %"), (0.0999, "10 %"), (0.0042, "0.42 %"), (0.05, "5 %"),
        (0.125, "13 %"), (1.5, "150 %"), (0.0, "0 %"), (-0.05, "−5 %"), ("NaN", "–"), (None, "–"),
    ]),
    *(("seconds", [value], words) for value, words in [
        (0.0123, "12.3 ms"), (0.9996, "1.00 s"), (42.25, "42.3 s"), (119.9, "120 s"), (119.96, "2 min"),
        (8040, "2 h 14 min"), (0.00042, "420 µs"), (0, "0 s"), ("NaN", "NaN"), (None, "–"),
    ]),
    *(("duration", [value], words) for value, words in [
        (0.25, "250 ms"), (0.0005, "1 ms"), (42, "42 s"), (42.5, "43 s"), (190, "3 min 10 s"), (3600, "1 h"),
        (8040, "2 h 14 min"), (90_000, "1 d 1 h"), (None, "–"),
    ]),
    *(("metric", [value, name], words) for name, value, words in [
        ("system/memory_bytes", 3_330_000_000, "3.1 GiB"),
        ("bytes", 512, "512 B"),
        ("network_sent_bytes_per_s", 2048, "2.0 KiB/s"),
        ("train/tokens_per_second", 12_400, "12.4k tok/s"),
        ("train/samples_per_second", 950, "950 samples/s"),
        ("train/flops_per_second", 8_530_000_000, "8.53 GFLOP/s"),
        ("train/mfu", 0.046, "4.6 %"),
        ("system/cpu_percent", 61.23, "61 %"),
        ("system/gpu_utilization", 5, "5 %"),
        ("system/gpu_temperature_c", 61.4, "61.4 °C"),
        ("system/gpu_power_w", 215, "215 W"),
        ("train/step_time_s", 0.35, "350 ms"),
        ("rank/phase/forward_s", 0.00042, "420 µs"),
        ("steps_per_s", 3, "3"),
        ("train/loss", 2.5, "2.50"),
        ("train/losses", 2.5, "2.50"),
        ("train/loss", "NaN", "NaN"),
        ("train/mfu", None, "–"),
    ]),
]  # fmt: skip
