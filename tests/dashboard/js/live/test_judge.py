"""The page's one socket: what is done with a message, given where the page stands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask


@pytest.mark.parametrize(
    ("message", "cursor", "verdict"),
    [
        ({"type": "run"}, 5, "deliver"),
        ({"type": "points", "from": 5, "cursor": 6}, None, "deliver"),
        ({"type": "points", "from": 5, "cursor": 6}, 5, "deliver"),
        ({"type": "points", "from": 4, "cursor": 6}, 5, "deliver"),  # some of it is new
        ({"type": "points", "from": 4, "cursor": 5}, 5, "drop"),
        ({"type": "points", "from": 6, "cursor": 7}, 5, "hole"),
        ({"type": "logs", "from": 5, "cursor": 5}, 5, "deliver"),  # its batch goes on
        ({"type": "logs", "from": 6, "cursor": 6}, 5, "hole"),
        ({"type": "logs", "from": 4, "cursor": 4}, 5, "drop"),
        ({"type": "refetch", "from": 2, "cursor": 2}, 5, "deliver"),  # the store has less than it had
        ({"type": "ping", "cursor": 5}, 5, "deliver"),
        ({"type": "ping", "cursor": 6}, 5, "hole"),
    ],
)
def test_a_message_is_judged_by_its_cursor(message: dict[str, Any], cursor: int | None, verdict: str, ask: Ask) -> None:
    assert ask("live/judge.js", "({judge}, [message, cursor]) => judge(message, cursor)", [message, cursor]) == verdict
