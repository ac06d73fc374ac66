"""Where hits are in a text, as JavaScript counts."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

pytestmark = pytest.mark.browser

CUT = "({asUnits}, [text, spans]) => asUnits(text, spans).map(([from, to]) => text.slice(from, to))"


@pytest.mark.parametrize("text", ["a boiler is cold", "🔥 a boiler 🔥 is cold 🔥", "שלום boiler", "", "🔥"])
def test_a_hit_is_where_the_server_says(text: str, ask: Ask) -> None:
    spans = [[start, end] for start in range(len(text)) for end in range(start + 1, len(text) + 1)]
    assert ask("logs/spans.js", CUT, [text, spans]) == [text[start:end] for start, end in spans]
