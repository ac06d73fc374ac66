"""Texts in the SDK: whatever they are made of."""

from __future__ import annotations

from pathlib import Path

import trainyard
from tests.trainyard.media_records import logged


def test_texts_of_any_kind_are_kept(spool: Path) -> None:
    text = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}abc \U0001f600 \udc80" + "x" * 100_000
    assert logged(spool, trainyard.Text(text))["data"] == text.encode("utf-8", "replace")
