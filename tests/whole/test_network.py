"""The benchmark of the network on the two nodes of a running Trainyard, as it is submitted and read."""

from __future__ import annotations

import csv
import io

import pytest

from tests.up_process import ROOT, Up
from tests.whole.runs import Document, Yard
from trainyard.spec import load_spec_file, merge

pytestmark = pytest.mark.extended  # what each rank measures is tested in tests/workers/training/communication

OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "ring", "parameter-server")
SIZES = [1024, 4096, 16384, 65536]


@pytest.fixture(scope="module")
def run(running_trainyard: Up) -> Document:
    spec = merge(load_spec_file(ROOT / "examples" / "network.yaml"), {"task.largest_bytes": 65536, "task.repeats": 3})
    with Yard(running_trainyard) as yard:
        ended = yard.wait_for_end(yard.submit(spec))
    assert ended["status"] == "SUCCEEDED", ended["reason"]
    return ended


def test_every_operation_has_its_curve_over_the_bytes(running_trainyard: Up, run: Document) -> None:
    with Yard(running_trainyard) as yard:
        for operation in OPERATIONS:
            found = yard.get(f"/runs/{run['id']}/series/data", name=f"bandwidth/{operation}")["series"][0]
            assert found["step"] == SIZES, operation
            assert all(value > 0 for value in found["value"]), operation


def test_the_pair_of_nodes_has_its_link(running_trainyard: Up, run: Document) -> None:
    with Yard(running_trainyard) as yard:
        series = yard.get(f"/runs/{run['id']}/series")["items"]
        nodes = {one["name"] for one in yard.get("/nodes")["items"]}
    (link,) = [one["labels"] for one in series if one["name"] == "link/bandwidth"]
    assert {link["from"], link["to"]} == nodes


def test_the_whole_table_is_among_its_files(running_trainyard: Up, run: Document) -> None:
    with Yard(running_trainyard) as yard:
        table = yard.file(run["id"], "communication.csv").decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == len(SIZES) * (len(OPERATIONS) + 1)
    assert {row["operation"] for row in rows} == {*OPERATIONS, "send-receive"}
