"""The banner about the server itself follows what the pings say."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

SHOW = """({show}, sentences) => {
  const banner = document.createElement("div");
  banner.innerHTML = "<p>Old.</p>";
  show(banner, sentences);
  return [...banner.children].map((line) => line.textContent);
}"""


@pytest.mark.parametrize("sentences", [[], ["Control has not worked."], ["One <b>thing</b>.", "Another."]])
def test_the_banner_shows_what_the_ping_says(sentences: list[str], ask_page: Ask) -> None:
    assert ask_page("live/server.js", SHOW, sentences) == sentences
