"""The program that speaks to Ray may hang, end, or answer what nobody understands: a call ends in any case."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runs.engines.ray import programs
from runs.engines.ray.programs import RayAddress, RayProgram, environment
from runs.engines.ray.trainyard_ray.documents import Call
from runs.engines.refusals import SystemAway

READY = """echo '{"version": "2.60.0"}'"""
Make = Callable[[str], RayProgram]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """A program that is a shell script in the place of an interpreter."""
    made: list[RayProgram] = []
    monkeypatch.setattr(programs, "ANSWER_S", 0.1)

    def make_one(script: str) -> RayProgram:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        made.append(RayProgram(RayAddress("head:6379", str(path), "")))
        return made[-1]

    yield make_one
    for one in made:
        one.end()


def test_one_program_answers_many_calls(make: Make) -> None:
    program = make(f"""{READY}; n=0; while read line; do n=$((n+1)); echo "{{\\"version\\": \\"$n\\"}}"; done""")
    assert [program.call(Call("survey")).version for _ in range(3)] == ["1", "2", "3"]
    assert program.version == "2.60.0"


def test_one_that_hangs_is_ended_and_started_again(make: Make, tmp_path: Path) -> None:
    program = make(f"""{READY}; read line; test -e {tmp_path}/again && echo '{{"version": "fine"}}'; exec sleep 60""")
    with pytest.raises(SystemAway, match=r"Ray at head:6379 did not answer within 0\.3 s"):
        program.call(Call("survey", limit_s=0.2))
    (tmp_path / "again").touch()
    assert program.call(Call("survey")).version == "fine"


def test_one_that_takes_long_to_start_is_waited_for_over_several_rounds(make: Make) -> None:
    program = make(f"""sleep 0.3; {READY}; read line; echo '{{"version": "fine"}}'""")
    with pytest.raises(SystemAway, match="has not answered yet"):
        program.call(Call("survey"), patience_s=0.05)
    deadline = time.monotonic() + 10
    while True:
        try:
            assert program.call(Call("survey")).version == "fine"
            return
        except SystemAway:
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", r"Ray at head:6379 cannot be asked: its program ended\."),
        ("echo nonsense", "its answer cannot be read"),
        (f"{READY}; read line; exit 3", "its program ended"),
        ("""echo '{"problem": "Connection refused", "kind": "away"}'""", r"cannot be asked: Connection refused\."),
        ("""echo '{"problem": "x has no Ray", "kind": "no-library"}'""", r"install trainyard\[ray\] for it\."),
    ],
)
def test_what_goes_wrong_is_said(make: Make, script: str, words: str) -> None:
    with pytest.raises(SystemAway, match=words):
        make(script).call(Call("survey"))


def test_an_interpreter_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemAway, match="/no/such/python: No such file"):
        RayProgram(RayAddress("head:6379", "/no/such/python", "")).call(Call("survey"))


def test_the_program_gets_nothing_of_the_servers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    made = environment("word")
    assert "SECRET_KEY" not in made
    assert (made["RAY_USAGE_STATS_ENABLED"], made["RAY_AUTH_TOKEN"]) == ("0", "word")
