"""What an address says of the log that it shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.js.conftest import Ask

READ = "({read}, search) => read(search)"
BACK = "({read, write}, search) => write(read(search))"
EMPTY = {
    "q": "", "line": "", "clock": "wall", "rank": [], "stream": [], "level": [], "attempt": [],
    "regex": False, "case": False, "wrap": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("address", "state"),
    [
        ("", {}),
        ("?rank=0&rank=7&level=error", {"rank": ["0", "7"], "level": ["error"]}),
        ("?stream=stderr&attempt=2", {"stream": ["stderr"], "attempt": ["2"]}),
        ("?q=a%26b%2Bc&regex=1&case=1", {"q": "a&b+c", "regex": True, "case": True}),
        ("?line=a1.r0.o.5&wrap=1&clock=relative", {"line": "a1.r0.o.5", "wrap": True, "clock": "relative"}),
    ],
)
def test_an_address_is_read_and_written(address: str, state: dict[str, Any], ask: Ask) -> None:
    assert ask("logs/address.js", READ, address) == {**EMPTY, **state}
    assert ask("logs/address.js", BACK, address) == address


def test_what_an_address_should_not_say_is_passed_over(ask: Ask) -> None:
    assert ask("logs/address.js", READ, "?clock=never&wrap=yes&other=1") == EMPTY


CLOCK = "({clockText}, [time, start]) => clockText(time, 'relative', start)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00.000"), (61.25, "1:01.250"), (3600, "1:00:00.000"), (59.9999, "0:59.999"), (-2.5, "−0:02.500")],
)
def test_time_since_the_start(seconds: float, text: str, ask_page: Ask) -> None:
    assert ask_page("logs/list/line.js", CLOCK, [1000 + seconds, 1000]) == text
