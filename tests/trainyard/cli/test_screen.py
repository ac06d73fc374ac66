"""What reaches the terminal of what others wrote."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runs.models import Run
from tests.spools import Spool, store
from tests.trainyard.command import Trainyard
from trainyard.cli.screen import safe

pytestmark = pytest.mark.usefixtures("valkey")


def test_of_colours_in_what_others_wrote_nothing_is_left() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]8;;http://a\x1b\\\\link\x1b]8;;\x07 \x9b1mbold \x1b[2K[31m"
    assert safe(text.replace("\\\\", "\\")) == "red link bold [31m"


def test_what_others_wrote_cannot_reach_the_terminal(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(reason_sentence="\x1b[2J\x9bowned\r")
    store(run, Spool().logs([(1.0, "\x1b]0;title\x07 text")]))
    for ended in (trainyard("show", run.pk), trainyard("runs"), trainyard("logs", run.pk)):
        assert not set(ended.out) & set("\x1b\x9b\x07\r")
