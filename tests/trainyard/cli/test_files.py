"""`trainyard files` and `download`: what a run left, brought here whole, and nowhere else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone

from runs.models import Run
from runs.records.files import paths as places
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node
from tests.trainyard.command import Trainyard
from trainyard.cli import files as commands
from trainyard.cli.files import PART, BadPath, inside

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture
def run(make_run: Callable[..., Run]) -> Run:
    run = make_run()
    folder = places.output_folder(run.pk)
    (folder / "logs").mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"weights" * 1000)
    (folder / "logs" / "a b.txt").write_text("hello")
    return run


def test_files_are_listed(trainyard: Trainyard, run: Run) -> None:
    ended = trainyard("files", run.pk)
    assert sorted(line.split("  ")[0] for line in ended.out.splitlines()[1:]) == ["logs/a b.txt", "model.pt"]
    listed = json.loads(trainyard("files", run.pk, "--json").out)["items"]
    assert sorted((one["path"], one["size_bytes"]) for one in listed) == [("logs/a b.txt", 5), ("model.pt", 7000)]


def test_what_waits_on_a_node_is_said_and_sent_when_asked(
    trainyard: Trainyard, cast: Cast, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "PATIENCE_S", 0.2)
    run = make_run(status=Status.SUCCEEDED)
    attempt = make_attempt(run, [make_node(cast.cluster, "node-a")], phase=Phase.ENDED, ended_at=timezone.now())
    gained = {"num_files": 1, "bytes": 7, "files": [{"path": "snapshot.pt", "size_bytes": 7}]}
    attempt.placements.update(gained=gained)
    told = trainyard("files", run.pk)
    assert "node-a has 1 file in its working folder (7 B): snapshot.pt" in told.err
    assert f"`trainyard files {run.pk} --send` has them sent here." in told.err
    assert json.loads(trainyard("files", run.pk, "--json").out)["left"][0]["node"] == "node-a"
    assert "--send" in trainyard("download", run.pk).err
    assert "--send" not in trainyard("files", run.pk, "--send").err
    assert attempt.placements.get().leftovers == "upload"


def test_what_is_on_its_way_is_waited_for_or_said_with_a_code(
    trainyard: Trainyard, cast: Cast, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(status=Status.SUCCEEDED)
    node = make_node(cast.cluster, "node-a")
    attempt = make_attempt(run, [node], phase=Phase.ENDED, ended_at=timezone.now(), go={})
    output = {"num_pending": 1, "pending": {"model.pt": 200 * 2**20}, "sending": {"model.pt": 2**20}}
    attempt.placements.update(output=output)
    monkeypatch.setattr(commands, "PATIENCE_S", 0.2)
    late = trainyard("download", run.pk)
    assert late.code == 1 and "node-a is sending 1 file (200 MiB)" in late.err and "No files" not in late.err

    def arrive(_: float) -> None:
        folder = places.output_folder(run.pk)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.pt").write_bytes(b"weights")
        attempt.placements.update(output={"is_sent": True})

    monkeypatch.setattr(commands.time, "sleep", arrive)
    whole = trainyard("download", run.pk)
    assert whole.code == 0 and (tmp_path / run.pk / "model.pt").read_bytes() == b"weights", whole.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["logs/a b.txt", "model.pt"]),
        (("model.pt",), ["model.pt"]),
        (("logs",), ["logs/a b.txt"]),
        (("*.pt", "logs/"), ["logs/a b.txt", "model.pt"]),
    ],
)
def test_what_is_named_is_brought_whole(
    trainyard: Trainyard, run: Run, tmp_path: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    to = tmp_path / "here"
    ended = trainyard("download", run.pk, *words, "--to", str(to))
    assert ended.code == 0 and ended.out == f"{to}\n"
    found = sorted(path.relative_to(to).as_posix() for path in to.rglob("*") if path.is_file())
    assert found == expected
    for name in found:
        assert (to / name).read_bytes() == (places.output_folder(run.pk) / name).read_bytes()
    assert "is here already" in trainyard("download", run.pk, *words, "--to", str(to)).err


def test_what_was_cut_off_goes_on_and_what_has_changed_begins_anew(
    trainyard: Trainyard, run: Run, tmp_path: Path
) -> None:
    stat = (places.output_folder(run.pk) / "model.pt").stat()
    tag = f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"'
    part = tmp_path / f"model.pt{PART}"
    part.write_bytes(b"WEIGHTS" * 500)
    part.with_name(f"{part.name}.json").write_text(json.dumps({"tag": tag}))
    assert trainyard("download", run.pk, "model.pt", "--to", str(tmp_path)).code == 0
    assert (tmp_path / "model.pt").read_bytes() == b"WEIGHTS" * 500 + b"weights" * 500, "only the rest was sent"
    part.write_bytes(b"WEIGHTS" * 500)
    part.with_name(f"{part.name}.json").write_text(json.dumps({"tag": '"another"'}))
    os.utime(tmp_path / "model.pt", (1, 1))
    assert trainyard("download", run.pk, "model.pt", "--to", str(tmp_path)).code == 0
    assert (tmp_path / "model.pt").read_bytes() == b"weights" * 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt"]


def test_a_name_that_nothing_has_is_said(trainyard: Trainyard, run: Run, tmp_path: Path) -> None:
    ended = trainyard("download", run.pk, "other.pt", "--to", str(tmp_path))
    assert ended.code == 1 and ended.err == f"Run {run.pk} has no file other.pt.\n"


def test_a_link_on_this_machine_is_not_written_through(trainyard: Trainyard, run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "logs").symlink_to(tmp_path / "secret")
    ended = trainyard("download", run.pk, "--to", str(tmp_path / "here"))
    assert ended.code == 1 and "is a link on this machine" in ended.err
    assert not list((tmp_path / "secret").iterdir())
    assert (tmp_path / "here" / "model.pt").is_file()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", ".", "a\\b", "a\nb", "x" * 1001])
def test_no_path_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadPath):
        inside(tmp_path, path)
