"""Texts in the SDK: whatever they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainyard
from tests.trainyard.media_records import logged, media


def test_texts_of_any_kind_are_kept(spool: Path) -> None:
    text = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}abc \U0001f600 \udc80" + "x" * 100_000
    assert logged(spool, trainyard.Text(text))["data"] == text.encode("utf-8", "replace")


@pytest.mark.parametrize("kind", ["source", "path", "text of a path", "file"])
def test_a_page_is_kept_from_its_source_its_file_or_its_path(kind: str, spool: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<b>x</b>")
    with path.open() as file:
        given = {"source": "<b>x</b>", "path": path, "text of a path": str(path), "file": file}[kind]
        record = logged(spool, trainyard.Html(given))
    assert (record["data"], record["kind"]) == (b"<b>x</b>", "text") and "html" in str(record["meta"])


def test_a_page_that_is_not_there_is_a_problem() -> None:
    assert "nowhere.html" in trainyard.Html("nowhere.html").problem


def test_an_alert_is_a_text_at_the_newest_step(spool: Path) -> None:
    run = trainyard.init()
    run.log({"loss": 1.0}, step=7)
    run.alert("Loss is high", "above 0.5", level="WARN")
    run.alert("Again", step=9)
    run.finish()
    found = [(one["name"], one["step"], one["data"]) for one in media(spool)]
    assert found == [("alert/warn", 7, b"Loss is high\nabove 0.5"), ("alert/info", 9, b"Again")]
