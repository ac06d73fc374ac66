"""What a script logs with no server near arrives with `trainyard sync`: pictures of any size that a record holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runs.records.media import read
from runs.records.metrics.models import Media
from tests.trainyard.command import Trainyard
from trainyard import Image, Text, init

pytestmark = pytest.mark.usefixtures("valkey")


def test_media_of_a_local_run_are_sent_once_as_they_were_logged(
    trainyard: Trainyard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINYARD_SPOOL", raising=False)
    run = init("at home", folder=tmp_path)
    noise = np.random.default_rng(0).integers(0, 256, (550, 600, 3), np.uint8)  # which cannot be made smaller
    for step in range(6):
        run.log({"samples": Image(noise), "story": Text(f"step {step}"), "loss": 0.5}, step=step)
    run.finish()
    assert (run.num_bad_values, run.num_lost_points) == (0, 0)
    for _ in range(2):
        assert trainyard("sync", str(tmp_path)).code == 0
    rows = list(Media.objects.order_by("step", "name"))
    assert [(row.name, row.step) for row in rows] == [
        (name, step) for step in range(6) for name in ("samples", "story")
    ]
    assert all(row.size > 900_000 and bytes(row.data).endswith(b"IEND\xaeB`\x82") for row in rows[::2])
    assert [read.content(row)["text"] for row in rows[1::2]] == [f"step {step}" for step in range(6)]
