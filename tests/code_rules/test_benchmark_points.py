"""What the benchmarks feed: numbers as training makes them, in frames and entries as nodes send them."""

import struct

import numpy as np

from benchmarks.load.generate import BATCH_BYTES, Sender, batches, frames, noisy, series_names
from benchmarks.peers.drive import NAMES, noisy_rows
from benchmarks.server_cases import bench_chart
from trainyard.contract.keys import new_key
from trainyard.contract.seals import check_mac, frames_scope
from trainyard.spooling import frames as records


def test_values_are_exact_in_32_bits_unless_full_doubles_are_asked_for() -> None:
    values = noisy(1_000, 3).values
    assert (values == values.astype(np.float32)).all()
    assert (noisy(1_000, 3, is_full=True).values != values).mean() > 0.99


def test_times_are_spread_evenly_with_a_jitter() -> None:
    pauses = np.diff(noisy(10_000, 1).times)
    assert abs(pauses.mean() - 0.1) < 1e-4
    assert 0.0005 < pauses.std() < 0.005


def test_frames_hold_every_point_once_in_order() -> None:
    points = noisy(95, 3)
    found = [record for data in batches(frames(points, 20)) for record in records.frames(data)]
    assert [record.sequence for record in found] == [1, 2, 3, 4, 5, 6]
    assert [record.kind for record in found] == ["begin"] + 5 * ["points"]
    groups = [group for record in found[1:] for group in record.payload["g"]]
    assert all(names == series_names(3) for _, names, *_ in groups)
    for place, column in ((2, points.steps), (3, points.times), (4, points.values)):
        assert b"".join(group[place] for group in groups) == column.tobytes()


def test_an_entry_is_as_large_as_a_supervisors_and_sealed_by_the_node() -> None:
    sizes = [len(data) for data in batches(frames(noisy(20_000, 10), 1_000))]
    assert BATCH_BYTES / 2 < max(sizes) <= BATCH_BYTES
    sender = Sender("node", new_key(), "run", "attempt", 3)
    check_mac(sender.key, frames_scope("node", "run", 3), b"frames", str(sender.entry(b"frames")["m"]))


def test_all_trackers_get_the_same_numbers() -> None:
    rows = noisy_rows(50)
    assert rows == noisy_rows(50)
    packed = struct.Struct(f"<{len(NAMES)}f")
    assert all(packed.unpack(packed.pack(*row)) == row for row in rows)


def test_a_chart_is_asked_for_at_every_zoom() -> None:
    found = list(bench_chart.windows(1_000_000, 100))
    spans = {last - first + 1 for first, last in found}
    assert max(spans) == 1_000_000 and min(spans) == bench_chart.PIXELS
    assert all(1 <= first <= last <= 1_000_000 for first, last in found)
    assert len(spans) >= 10
