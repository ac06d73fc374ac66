"""A script that only prints: what its log's numbers offer, and the form that follows them."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from django.test import Client

from dashboard.pages.run.curves import offer_of
from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.models import Run, User
from runs.values.status import Status
from tests.cast import Cast, spec
from tests.series import write_series
from tests.spools import Spool
from trainyard.contract.orders import LogRule
from workers.supervisor.records.rule_watch import RuleWatch

pytestmark = pytest.mark.django_db(databases="__all__")
MakeRun = Callable[..., Run]
SCRIPT = {"task": {"script": "train.py"}}
LINES = [f"Epoch {step} lr 0.1 train_loss: {3 / (step + 1):.4f} took 1.2 s" for step in range(5)]


def printed(run: Run, lines: list[str]) -> Run:
    frame = Spool().logs([(float(at), line) for at, line in enumerate(lines)], 0, "stdout")
    commit(run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))
    return run


def test_numbers_that_come_again_are_offered_and_their_rules_find_them(
    cast: Cast, as_user: Callable[[User], Client], make_run: MakeRun
) -> None:
    run = printed(make_run(spec=spec(**SCRIPT), status=Status.RUNNING), ["loading 2.0 files", *LINES])
    client = as_user(cast.mate)
    text = client.get(f"/runs/{run.pk}/").content.decode()
    assert "<b>lr</b>, <b>train_loss</b>" in text
    offer = offer_of(run)
    assert offer is not None and offer.names == ["lr", "train_loss"]
    form = client.get(offer.url).content.decode()
    [pattern] = re.findall(r"train_loss metric: ([^\n<]+)", form)
    watch = RuleWatch([LogRule("train_loss", html.unescape(pattern), "metric")])
    watch.read(LINES, rank=0, stream="stdout", at=1.0)
    [group] = watch.take_points()
    assert memoryview(group.steps).cast("q").tolist() == [0, 1, 2, 3, 4]
    assert memoryview(group.values).cast("d").tolist() == [3.0, 1.5, 1.0, 0.75, 0.6]


@pytest.mark.parametrize("lines", [[], ["loss 1.5", "loss 1.4"], ["done in 1.2 s", "done in 1.3 s", "done in 1.4 s"]])
def test_few_lines_and_plain_times_offer_nothing(make_run: MakeRun, lines: list[str]) -> None:
    assert offer_of(printed(make_run(spec=spec(**SCRIPT)), lines) if lines else make_run(spec=spec(**SCRIPT))) is None


def test_a_run_with_curves_a_recipe_and_one_with_all_its_rules_are_offered_nothing(make_run: MakeRun) -> None:
    logged = printed(make_run(spec=spec(**SCRIPT)), LINES)
    assert offer_of(logged) is not None
    write_series(logged, "system/cpu_percent", [5.0])
    assert offer_of(logged) is not None
    write_series(logged, "train/loss", [5.0])
    assert offer_of(logged) is None
    assert offer_of(printed(make_run(), LINES)) is None
    rules = [{"label": f"x{number}", "pattern": "a", "action": "label"} for number in range(20)]
    assert offer_of(printed(make_run(spec=spec(**SCRIPT, log_rules=rules)), LINES)) is None
