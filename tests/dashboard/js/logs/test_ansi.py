"""A line of a log as a terminal would show it."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

pytestmark = pytest.mark.browser


RENDER = """({render}, text) => {
    const row = document.createElement("div");
    row.append(...render(text));
    return [row.textContent, row.innerHTML];
}"""


@pytest.mark.parametrize(
    ("line", "text", "html"),
    [
        ("plain", "plain", "plain"),
        ("\x1b[31mred\x1b[0m rest", "red rest", '<span class="ansi-red">red</span> rest'),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "link", "link"),
        ("\x1b[2J\x1b[1;1Hclear", "clear", "clear"),
        (" 10 %\r 20 %\r 30 %", " 30 %", " 30 %"),
        ("a\x00\x08b", "ab", "ab"),
    ],
)
def test_a_log_line_is_text_whatever_it_holds(line: str, text: str, html: str, ask: Ask) -> None:
    assert ask("logs/ansi.js", RENDER, line) == [text, html]
