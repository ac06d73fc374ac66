"""Steps that say what they do and how long it took, and that fail with one plain sentence."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
NUM_OUTPUT_LINES_SHOWN = 25
_children: set[subprocess.Popen[str]] = set()


class SetupError(Exception):
    """A step failed. `sentence` says what to do; `output` is what the program said."""

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.output = output


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def step(name: str) -> Iterator[list[str]]:
    """Print `name` with its seconds when it ends. What the body appends to the list is shown behind the name."""
    notes: list[str] = []
    started_at = time.monotonic()
    yield notes
    label = name + (" (" + ", ".join(notes) + ")" if notes else "")
    say(f"  {label:<58} {time.monotonic() - started_at:5.1f} s")


def run(
    command: Sequence[str | Path], sentence: str, changes: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> str:
    """Run quietly and return the output. Raises SetupError with `sentence` and the output where it fails."""
    words = [str(word) for word in command]
    try:
        child = subprocess.Popen(
            words,
            cwd=cwd,
            env={**os.environ, **(changes or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise SetupError(sentence, f"{words[0]}: {error}") from error
    _children.add(child)
    try:
        output, _ = child.communicate()
    finally:
        _children.discard(child)
    if child.returncode != 0:
        raise SetupError(sentence, output)
    return output


def stop_children() -> None:
    """End what still runs beside a step that failed, so that the next set-up does not meet it."""
    for child in list(_children):
        child.terminate()


def last_lines(output: str, num_lines: int = NUM_OUTPUT_LINES_SHOWN) -> str:
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return "\n".join("    " + line for line in lines[-num_lines:])
