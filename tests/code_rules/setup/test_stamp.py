from pathlib import Path

import pytest

from dashboard.setup import node, stamp


@pytest.fixture
def finished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A set-up for `check` that was finished with the digest `same`."""
    for module, name in ((stamp, "STAMP"), (stamp, "VENV_PYTHON"), (node, "STAMP")):
        path = tmp_path / f"{module.__name__}.{name}"
        path.touch()
        monkeypatch.setattr(module, name, path)
    stamp.write("check", "same")


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(("kind", "done"), [("run", True), ("check", True), ("tests", False)])
def test_a_set_up_holds_the_smaller_ones(kind: str, done: bool) -> None:
    assert stamp.is_done(kind, "same") is done


@pytest.mark.usefixtures("finished")
def test_another_digest_means_again() -> None:
    assert stamp.is_done("run", "other") is False


@pytest.mark.usefixtures("finished")
def test_a_deleted_node_modules_means_again() -> None:
    node.STAMP.unlink()
    assert stamp.is_done("run", "same") is False


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": "same"}', '{"digest": "same", "kind": "of old"}'])
def test_a_stamp_that_cannot_be_read_means_again(text: str) -> None:
    stamp.STAMP.write_text(text)
    assert stamp.is_done("run", "same") is False
