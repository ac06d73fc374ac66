"""Files that a script saves are files of its run: at once in a rank, sent live or by `trainyard sync` elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runs.models import Run
from runs.records.files import outputs
from tests.trainyard.command import Trainyard
from tests.up_process import wait_until
from trainyard import init
from trainyard.sdk import local_run as local
from trainyard.sdk.run import Run as OwnRun

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINYARD_SPOOL", raising=False)
    monkeypatch.delenv(local.VARIABLE, raising=False)
    monkeypatch.setattr(local, "_own", (0, ""))
    (tmp_path / "work/src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    for name in ("model.pt", "a.csv", "b.csv", "src/net.py", "train.py"):
        Path(name).write_text(f"content of {name}")


def kept(run: Run) -> dict[str, str]:
    found = {one["path"]: outputs.find(run.pk, one["path"]) for one in outputs.listing(run.pk)}
    return {path: file.read_text() for path, file in found.items() if file}


def test_what_was_saved_is_synced_once_and_again_where_it_changed(trainyard: Trainyard, tmp_path: Path) -> None:
    run = init("at home", mode="offline")
    assert len(run.save("*.csv")) == 2
    run.save(tmp_path / "work/src", base=tmp_path)
    run.save("model.pt", policy="end")
    run.log_code()
    Path("a.csv").write_text("later")  # which is not what was saved
    Path("model.pt").write_text("at the end")
    run.finish()
    assert trainyard("sync").code == 0
    stored = Run.objects.get()
    whole = {
        "a.csv": "content of a.csv", "b.csv": "content of b.csv", "work/src/net.py": "content of src/net.py",
        "model.pt": "at the end", "code/train.py": "content of train.py", "code/src/net.py": "content of src/net.py",
    }  # fmt: skip
    assert kept(stored) == whole
    assert "nothing new" in trainyard("sync").out
    copy = run.folder / "files/b.csv"
    copy.write_text("Content of b.csv")  # of the same size
    assert trainyard("sync").code == 0
    assert kept(stored) == {**whole, "b.csv": "Content of b.csv"}


def test_a_file_that_the_server_does_not_take_is_said_and_the_rest_is_sent(trainyard: Trainyard) -> None:
    run = init("at home", mode="offline")
    Path("n" * 210).write_text("a name that is too long there")
    run.save("n" * 210)
    run.save("model.pt")
    run.finish()
    ended = trainyard("sync")
    assert ended.code == 1 and "was not taken: 'nnn" in ended.err
    assert kept(Run.objects.get()) == {"model.pt": "content of model.pt"}
    assert Run.objects.get().status == "SUCCEEDED"


def test_a_run_that_is_sent_live_has_the_file_before_it_ends(trainyard: Trainyard) -> None:
    run = init("live")
    try:
        run.log({"loss": 1.0})
        run.save("model.pt")
        wait_until(lambda: any(kept(one) for one in Run.objects.all()), "the file is there", patience_s=30)
    finally:
        run.finish()
    assert kept(Run.objects.get()) == {"model.pt": "content of model.pt"}


def test_in_a_rank_it_lies_where_the_node_takes_files_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_OUTPUT", str(tmp_path / "output"))
    run = OwnRun(None, tmp_path / "spool")
    assert run.save("model.pt") == [tmp_path / "output/model.pt"] and run.log_code() == []
    run.finish()
    assert os.listdir(tmp_path / "output") == ["model.pt"]  # noqa: PTH208


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    run = init("at home", mode="offline")
    for words, sentence in (
        (("nothing.pt",), r"there is no file 'nothing\.pt'"), (("model.pt", "src"), "does not lie below base='src'"),
        (("model.pt", None, "live"), "policy='live' is none of now, end"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            run.save(*words)  # type: ignore[arg-type]
    run.finish()
    disabled = init(mode="disabled")
    assert disabled.save("model.pt") == []
    disabled.finish()
    assert not (run.folder / "files").exists()
