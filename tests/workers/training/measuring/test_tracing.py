from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.training.ranks import Point, Recorder, tiny_spec, train_on
from workers.training.measuring.tracing import Tracing

CPU = torch.device("cpu")


def wish(path: Path, *, id: str = "t1", first: int = 4, steps: int = 2, ranks: Any = "all") -> Path:
    path.write_text(json.dumps({"id": id, "first": first, "steps": steps, "ranks": ranks}))
    return path


def told(points: list[Point]) -> list[dict[str, Any]]:
    mine = [told for kind, _, told, _ in points if kind == "facts" and told["name"] == '"trace"']
    return [json.loads(told["data"]) for told in mine]


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return found


def test_every_rank_traces_exactly_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    asked = wish(tmp_path / "trace.json", first=4, steps=2)
    logged = train_on(2, tiny_spec(world=2, steps=8), TRAINYARD_OUTPUT=str(tmp_path), TRAINYARD_TRACE=str(asked))
    for rank, points in enumerate(logged):
        name = f"traces/step-4.rank-{rank}.json.gz"
        size = (tmp_path / name).stat().st_size
        assert told(points) == [{"id": "t1", "first": 4, "last": 5, "file": name, "bytes": size}]
        names = [event.get("name", "") for event in events(tmp_path / name)]
        assert sorted({name for name in names if name.startswith("step ")}) == ["step 4", "step 5"]
        assert any("all_reduce" in name or "allreduce" in name for name in names)
        assert any(name.startswith("aten::") for name in names)
    assert [path.name for path in (tmp_path / "traces").iterdir() if path.name.startswith(".")] == []


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def tracing(tmp_path: Path, recorder: Recorder, rank: int = 0) -> Tracing:
    return Tracing(str(tmp_path / "trace.json"), str(tmp_path), rank, CPU, recorder)


def walk(one: Tracing, *steps: int) -> None:
    for step in steps:
        one.before(step)
        one.after(step)


def test_without_a_wish_or_without_a_node_nothing_happens(tmp_path: Path, recorder: Recorder) -> None:
    walk(tracing(tmp_path, recorder), 1, 2, 3)
    nobody = Tracing(None, None, 0, CPU, recorder)
    walk(nobody, 1)
    nobody.close()
    assert recorder.points == [] and list(tmp_path.iterdir()) == []


def test_a_wish_that_comes_late_is_answered_with_how_late(tmp_path: Path, recorder: Recorder) -> None:
    wish(tmp_path / "trace.json", first=4)
    walk(tracing(tmp_path, recorder), 7, 8)
    assert told(recorder.points) == [
        {"id": "t1", "first": 4, "last": 5, "why": "step 4 was over when the wish arrived, at step 7"}
    ]


def test_a_rank_that_was_not_chosen_says_nothing(tmp_path: Path, recorder: Recorder) -> None:
    wish(tmp_path / "trace.json", first=4, ranks=[0])
    walk(tracing(tmp_path, recorder, rank=1), 3, 4, 5, 6)
    assert recorder.points == [] and not (tmp_path / "traces").exists()


def test_a_second_wish_is_taken_when_the_first_is_done(tmp_path: Path, recorder: Recorder) -> None:
    one = tracing(tmp_path, recorder)
    wish(tmp_path / "trace.json", first=2, steps=1)
    walk(one, 1, 2, 3)
    wish(tmp_path / "trace.json", id="t2", first=6, steps=1)
    os.utime(tmp_path / "trace.json", ns=(1, 1))
    walk(one, 4, 5, 6, 7)
    assert [(data["id"], data["file"]) for data in told(recorder.points)] == [
        ("t1", "traces/step-2.rank-0.json.gz"),
        ("t2", "traces/step-6.rank-0.json.gz"),
    ]


def test_a_wish_that_comes_while_steps_are_traced_is_answered_and_disturbs_nothing(
    tmp_path: Path, recorder: Recorder
) -> None:
    """The server lets another be asked for when steps take so long that the first seems forgotten."""
    one = tracing(tmp_path, recorder)
    wish(tmp_path / "trace.json", first=1, steps=3)
    walk(one, 1)
    wish(tmp_path / "trace.json", id="t2", first=2, steps=1)
    os.utime(tmp_path / "trace.json", ns=(1, 1))
    walk(one, 2, 3, 4)
    assert [(data["id"], data.get("file"), data.get("why")) for data in told(recorder.points)] == [
        ("t2", None, "steps 1 to 3 were being traced when the wish arrived"),
        ("t1", "traces/step-1.rank-0.json.gz", None),
    ]


@pytest.mark.parametrize("last", [3, 4])
def test_a_training_that_ends_before_says_so(tmp_path: Path, recorder: Recorder, last: int) -> None:
    wish(tmp_path / "trace.json", first=4, steps=3)
    one = tracing(tmp_path, recorder)
    walk(one, *range(1, last + 1))
    one.close()
    assert [data["why"] for data in told(recorder.points)] == ["the training ended before it"]


def test_a_trace_that_cannot_be_written_ends_nothing(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / "traces").write_text("in the way")
    wish(tmp_path / "trace.json", first=1, steps=1)
    walk(tracing(tmp_path, recorder), 1, 2)
    [data] = told(recorder.points)
    assert data["why"].startswith("it could not be written: ")


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"id": 1}', '{"id": "a", "first": "x", "steps": 1, "ranks": "all"}']
)
def test_a_wish_that_cannot_be_read_is_passed_over(
    tmp_path: Path, recorder: Recorder, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "trace.json").write_text(text)
    walk(tracing(tmp_path, recorder), 1, 2)
    assert recorder.points == []
    assert capsys.readouterr().err.count("a wish for a trace cannot be read") == 1
