"""What reaches the terminal of what others wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runs.models import Run
from tests.spools import Spool, store
from tests.trainyard.command import Trainyard

pytestmark = pytest.mark.usefixtures("valkey")


def test_what_others_wrote_cannot_reach_the_terminal(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(reason_sentence="\x1b[2J\x9bowned\r")
    store(run, Spool().logs([(1.0, "\x1b]0;title\x07 text")]))
    for ended in (trainyard("show", run.pk), trainyard("runs"), trainyard("logs", run.pk)):
        assert not set(ended.out) & set("\x1b\x9b\x07\r")
