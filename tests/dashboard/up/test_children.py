"""A child is kept alive, listened to, and stopped."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dashboard.up import children
from dashboard.up.children import Child, Program
from dashboard.up.output import Console

FLOOD = "import sys\nfor i in range(20000): print(f'line {i:05} ' + 'x' * 200)\nprint('no newline', end='')"
PATIENT = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)"
LIFELINE = "import os\nprint('up', flush=True)\nos.read(int(os.environ['TRAINYARD_LIFELINE']), 1)\nprint('tidy')"


def python(name: str, code: str, **more: object) -> Program:
    return Program(name, [sys.executable, "-c", code], **more)  # type: ignore[arg-type]


async def until_said(folder: Path, name: str, text: str) -> str:
    while text not in (said := (folder / f"{name}.log").read_text()):
        await asyncio.sleep(0.02)
    return said


@pytest.fixture
def console() -> Console:
    return Console(is_coloured=False)


async def test_a_child_whose_end_is_for_good_is_not_started_again(tmp_path: Path, console: Console) -> None:
    child = Child(
        python("node", "print('removed'); raise SystemExit(7)", final_code=7), tmp_path, console, lambda: None
    )
    await child.start()
    await until_said(tmp_path, "node", "-- ended, and is not started again: removed")
    await child.stop(1)
    assert child.num_starts == 1


async def test_all_that_a_child_says_is_written_down(
    tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "FIRST_PAUSE_S", 60.0)
    child = Child(python("flood", FLOOD), tmp_path, console, lambda: None)
    await child.start()
    said = (await until_said(tmp_path, "flood", "no newline")).splitlines()
    await child.stop(1)
    assert [line[:10] for line in said[:20000]] == [f"line {number:05}" for number in range(20000)]


async def test_a_child_that_dies_starts_again(
    tmp_path: Path, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    child = Child(python("dying", "print('traceback'); raise SystemExit(3)"), tmp_path, console, lambda: None)
    await child.start()
    said = await until_said(tmp_path, "dying", "in 0.4 s")
    await child.stop(1)
    console.close()
    sentence = "ended with exit code 3; it starts again in 0.2 s"
    assert sentence in said and "traceback" in said
    assert child.num_starts >= 2
    on_terminal = capsys.readouterr().out
    assert sentence in on_terminal and "traceback" not in on_terminal, "a person reads sentences there"


async def test_a_child_that_does_not_listen_is_killed(tmp_path: Path, console: Console) -> None:
    child = Child(python("patient", PATIENT), tmp_path, console, lambda: None)
    await child.start()
    await until_said(tmp_path, "patient", "up")
    assert not await child.stop(0.3)
    assert child.pid is None


async def test_a_child_that_stops_by_its_lifeline_tidies_up(tmp_path: Path, console: Console) -> None:
    program = python("node", LIFELINE, stops_by_lifeline=True, death_signal=0)
    child = Child(program, tmp_path, console, lambda: None)
    await child.start()
    await until_said(tmp_path, "node", "up")
    assert await child.stop(10)
    assert "tidy" in (tmp_path / "node.log").read_text()


async def test_a_grandchild_that_holds_the_pipe_keeps_nobody(tmp_path: Path, console: Console) -> None:
    code = "import subprocess, sys\nsubprocess.Popen(['sleep', '30'])\nprint('gone')"
    child = Child(python("parent", code), tmp_path, console, lambda: None)
    await child.start()
    await until_said(tmp_path, "parent", "ended with exit code 0")
    await child.stop(1)
