from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.records.logs.chunks import encoded, levels_of
from runs.records.logs.levels import CODES, NAMES, level_of

LINES = {
    "error": [
        "2026-01-02 10:00:00,123 - my.module - ERROR - failed",
        "[2026-01-02 10:00:00][train.py:44][ERROR] x",
        "ERROR: boom",
        "CRITICAL oom",
        "FATAL: out of disk",
        "Traceback (most recent call last):",
        "[rank3]: Traceback (most recent call last):",
        "ValueError: bad",
        "torch.OutOfMemoryError: CUDA out of memory. Tried",
        "[rank0]: torch.cuda.OutOfMemoryError: x",
        "KeyboardInterrupt",
        "AssertionError",
        "RuntimeError: DataLoader worker",
        "subprocess.CalledProcessError: Command",
        "[rank0]:[E1121 10:00:00.123 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught",
        "E0719 10:00:00.000000 123 file.cc:1] x",
        "[E ProcessGroupNCCL.cpp:475] x",
        "main.cpp:12:3: error: expected ;",
        "gcc: error: no",
        "fatal: not a git",
        "error[E0308]: mismatched",
        '{"time": 1, "level": "error", "msg": "x"}',
        "\x1b[31mERROR\x1b[0m failed",
        "Error: cannot find module",
        "ERROR",
        "[ERROR]",
        "<ERROR> x",
    ],
    "warning": [
        "2026-01-02 10:00:00,123 - trainer - WARNING - low disk",
        "WARNING:root:careful",
        "[rank0]:[W1121 10:00:00.123 socket.cpp:6] x",
        "W0719 10:00:00.000000 123 file.cc:1] x",
        "[W socket.cpp:436] [c10d] The server",
        "node0:123:456 [0] NCCL WARN Call to connect",
        "/a/b.py:12: UserWarning: something",
        "<frozen runpy>:128: RuntimeWarning: x",
        "warning: unused",
        "warning[unused]: a variable",
        "ts=1 level=warn msg=x",
    ],
    "info": [
        "[2026-01-02 10:00:00,123][hydra][INFO] - start",
        "[INFO|trainer.py:1234] 2026-01-02 10:00:00,123 >> Saving",
        "INFO:     Uvicorn running",
        "I0719 10:00:00.000000 1 f.cc:2] x",
        "node0:123:456 [0] NCCL INFO Channel 00",
        "time=1 level=info msg=done",
        "\x1b[2m2026-01-01T00:00:00Z\x1b[0m [\x1b[32m\x1b[1minfo     \x1b[0m] started",
        "2026-01-01 10:00:00 | INFO     | __main__:main:12 - hi",
    ],
    "debug": ["DEBUG x"],
    "": [
        "    raise ValueError('x')",
        "0 errors",
        "no ERROR here",
        "There was an ERROR in it",
        "step 10 loss 0.3",
        "error rate 0.2",
        "errors: 0",
        "test_error passed",
        "INFORMATION is power",
        '  File "x.py", line 3, in f',
        "epoch 3 error 0.12",
        "validation Error is 0.3",
        "mean error: 0.2",
        "I am INFO",
        "",
        "val/error: 0.12",
        "num_errors: 0 level 3",
        "debugging the model",
        "level: 3",
        "loss=0.1 ERROR_RATE=0.2",
        "Exit code 0",
        "During handling of the above exception, another exception occurred:",
    ],
}
CASES = [(text, level) for level, texts in LINES.items() for text in texts]


@pytest.mark.parametrize(("text", "level"), CASES)
def test_a_line_has_the_level_that_it_says(text: str, level: str) -> None:
    assert NAMES[level_of(text)] == level


def test_lines_together_have_the_levels_that_they_have_alone() -> None:
    levels = levels_of([encoded(text) for text, _ in CASES])
    assert levels.tolist() == [CODES[level] for _, level in CASES]


PIECES = (
    "ERROR", "WARN", "INFO", "DEBUG", "error", "warning", "level", "=", ":", " ", "[", "]", "E0719 10:00:00.1", "[W ",
    "ValueError", "UserWarning", "Traceback (most recent call last)", "\x1b[31m", "\x1b[0m", "1.2", "x", "-",
    "severity", "fatal", '"', "info", "É", "[a]:",
)  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=1, max_size=20))
def test_the_look_over_many_lines_overlooks_none(texts: list[str]) -> None:
    assert levels_of([encoded(text) for text in texts]).tolist() == [level_of(text) for text in texts]


@pytest.mark.parametrize(
    "part", ["a.b", "[a] ", "-", "A B ", "a.", "1.2 ", "(", "ErrorError", "a:1: ", "level=", "_", "["]
)
def test_no_line_keeps_it_busy(part: str) -> None:
    text = part * 100_000 + " ERROR"
    began = time.process_time()
    for _ in range(20):
        level_of(text)
    assert time.process_time() - began < 0.2
