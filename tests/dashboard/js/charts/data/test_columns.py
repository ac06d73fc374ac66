"""Answers in columns are read as the server writes them."""

from __future__ import annotations

import numpy as np

from runs.api.metrics.columns import as_columns
from runs.records.points.charts.series import Curve
from tests.dashboard.js.conftest import Ask

READ = """({readColumns}, bytes) => {
    const {series, ...answer} = readColumns(Uint8Array.from(bytes).buffer);
    const words = (value) => value instanceof Float64Array ? Array.from(value, String) : value;
    const entries = (one) => Object.entries(one).map(([name, value]) => [name, words(value)]);
    const read = series.map((one) => Object.fromEntries(entries(one)));
    return {...answer, series: read, isShared: series[0].step === series[1].step};
}"""


def test_columns_are_read_as_the_server_writes_them(ask: Ask) -> None:
    steps, far = np.array([1, 2, 3]), np.array([2**53 + 1, -(2**63), 0])
    values = np.array([0.1, np.nan, -np.inf])
    curves = [
        Curve("run1", name, {"gpu": "ö"}, 2, "raw", {"step": step, "time": values, "value": values}, is_old)
        for name, step, is_old in (("a", steps, False), ("b", steps, True), ("c", far, False))
    ]
    read = ask("charts/data/columns.js", READ, list(as_columns({"cursor": 7}, curves, is_many=False)))
    assert (read["cursor"], read["isShared"]) == (7, True)
    assert [(one["name"], one.get("superseded")) for one in read["series"]] == [("a", None), ("b", True), ("c", None)]
    assert read["series"][0]["labels"] == {"gpu": "ö"}
    assert read["series"][0]["value"] == ["0.1", "NaN", "-Infinity"]
    assert read["series"][2]["step"] == ["9007199254740992", "-9223372036854776000", "0"], "the nearest that it has"


def test_bytes_that_are_no_columns_are_refused(ask: Ask) -> None:
    refused = """({readColumns}, bytes) => {
      try { return readColumns(Uint8Array.from(bytes).buffer); } catch (error) { return String(error); }
    }"""
    assert "no columns" in ask("charts/data/columns.js", refused, list(b'{"cursor": 1, "series": []}'))
