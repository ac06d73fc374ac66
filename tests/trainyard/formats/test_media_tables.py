"""Tables in the SDK: plain cells, and a mark where they were cut."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

import trainyard
from tests.trainyard.media_records import logged


def test_a_table_is_cut_with_a_mark_and_its_cells_are_plain(spool: Path) -> None:
    cells = [1, 2.5, None, True, "x" * 20_000, np.float32(0.5), np.int64(3), 2**70, b"bytes", math.nan, "\udc80"]
    wide = [cells + [0] * 250] * 20_000  # 400 MB of text, if it were all kept
    payload = logged(spool, trainyard.Table([f"column {n}" for n in range(261)], wide))
    meta, rows = payload["meta"], msgpack.unpackb(payload["data"])
    assert (meta["num_rows"], meta["num_columns"], len(meta["columns"])) == (20_000, 261, 200)
    assert 0 < len(rows) == meta["rows"] < 10_000
    assert rows[0][:9] == [1, 2.5, None, True, "x" * 9_999 + "…", 0.5, 3, str(2**70), "b'bytes'"]
    assert math.isnan(rows[0][9]) and rows[0][10] == "?"


def test_rows_that_have_no_end_are_cut_too(spool: Path) -> None:
    def endless() -> Any:
        while True:
            yield (1,)

    meta = logged(spool, trainyard.Table(["a"], endless()))["meta"]
    assert (meta["rows"], meta["num_rows"]) == (10_000, 10_001)
