"""`trainyard logs`: lines of all ranks, of one, and those that are looked for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from runs.models import Run
from runs.values.status import Status
from tests.spools import Spool, store
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_logs_print_lines_with_their_rank(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    store(run, Spool().logs([(1.0, "one"), (3.0, "three")], rank=0))
    store(run, Spool().logs([(2.0, "two")], rank=1))
    assert trainyard("logs", run.pk).out.splitlines() == ["[0] one", "[1] two", "[0] three"]
    assert trainyard("logs", run.pk, "--rank", "1").out.splitlines() == ["two"]
    assert trainyard("logs", run.pk, "--follow").out.splitlines() == ["[0] one", "[1] two", "[0] three"]
    assert json.loads(trainyard("logs", run.pk, "--rank", "1", "--json").out)["text"] == "two"


def test_logs_print_what_fits_a_pattern_or_has_a_level(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(status=Status.SUCCEEDED)
    long = "ERROR: " + "x" * 5000
    store(run, Spool().logs([(1.0, "one"), (3.0, "WARNING: three"), (4.0, long)], rank=0))
    store(run, Spool().logs([(2.0, "ERROR: two")], rank=1))
    assert trainyard("logs", run.pk, "--grep", "^(ONE|error: t)").out.splitlines() == ["[0] one", "[1] ERROR: two"]
    assert trainyard("logs", run.pk, "--level", "error", "--rank", "1").out.splitlines() == ["ERROR: two"]
    assert trainyard("logs", run.pk, "--level", "error").out.splitlines() == ["[1] ERROR: two", f"[0] {long}"]
    both = ("--level", "warning", "--level", "none")
    assert trainyard("logs", run.pk, *both).out.splitlines() == ["[0] one", "[0] WARNING: three"]
    assert trainyard("logs", run.pk, *both, "--follow").out.splitlines() == ["[0] one", "[0] WARNING: three"]
    assert "spans" not in json.loads(trainyard("logs", run.pk, "--grep", "two", "--json").out)
    refused = trainyard("logs", run.pk, "--grep", "(")
    assert refused.code != 0 and "missing )" in refused.err
