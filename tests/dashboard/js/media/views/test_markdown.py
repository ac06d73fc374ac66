"""Signs of Markdown in logged texts, and nothing else, become elements."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("It is **0.04**.\n\nIt is *bad*.", "<p>It is <strong>0.04</strong>.</p><p>It is <em>bad</em>.</p>"),
        ("# Head\nand a `a*b*c` line", '<p class="media-heading">Head</p><p>and a <code>a*b*c</code> line</p>'),
        ("- one\n- **two**", "<ul><li>one</li><li><strong>two</strong></li></ul>"),
        ("1. one\n2) two", "<ol><li>one</li><li>two</li></ol>"),
        ("before\n```python\na = **b**\n\nc\n```\nafter", "<p>before</p><pre>a = **b**\n\nc</pre><p>after</p>"),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_signs_become_elements(text: str, html: str, ask: Ask) -> None:
    assert (
        ask("media/views/markdown.js", "({blocks}, text) => blocks(text).map((one) => one.outerHTML).join('')", text)
        == html
    )


@pytest.mark.parametrize(
    "text", ["<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "**<script>x</script>**", "<!-- -->"]
)
def test_links_and_markup_stay_text(text: str, ask: Ask) -> None:
    function = """({blocks}, text) => {
        const place = document.createElement("div");
        place.append(...blocks(text));
        return [place.textContent, place.querySelectorAll("img, a, script").length];
    }"""
    assert ask("media/views/markdown.js", function, text) == [text.replace("**", ""), 0]


def test_a_long_text_of_signs_takes_no_time(ask: Ask) -> None:
    function = """({blocks}) => {
        const start = performance.now();
        const signs = ["*", "_", "`", "**", "# ", "- ", "```\\n", "*a "];
        for (const sign of signs) blocks(sign.repeat(50_000 / sign.length));
        return performance.now() - start;
    }"""
    assert ask("media/views/markdown.js", function) < 5_000


@pytest.mark.parametrize(("text", "num"), [("# a\n" * 12_000, 12_000), ("a" + " " * 49_000 + "b", 1)])
def test_a_text_of_nothing_but_headings_or_spaces_is_drawn_at_once(text: str, num: int, ask: Ask) -> None:
    function = """({blocks}, text) => {
        const start = performance.now();
        return [blocks(text).length, performance.now() - start];
    }"""
    found, took_ms = ask("media/views/markdown.js", function, text)
    assert found == num
    assert took_ms < 500
