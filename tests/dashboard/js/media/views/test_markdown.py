"""Markdown of logged texts becomes elements that fetch nothing, run nothing and say nothing of the page."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

MODULE = "media/views/markdown.js"
HTML = """({render}, text) => {
    const place = document.createElement("div");
    place.append(render(text));
    return place.innerHTML.replaceAll(/>\\s+</g, "><").trim();
}"""


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("It is **0.04**.\n\nIt is *bad*.", "<p>It is <strong>0.04</strong>.</p><p>It is <em>bad</em>.</p>"),
        ("# Head\nand a `a*b*c` line", "<header>Head</header><p>and a <code>a*b*c</code> line</p>"),
        ("- one\n- **two**", "<ul><li>one</li><li><strong>two</strong></li></ul>"),
        ("1. one\n2. two", "<ol><li>one</li><li>two</li></ol>"),
        ("- one\n  - inner", "<ul><li>one<ul><li>inner</li></ul></li></ul>"),
        ("- [x] done\n- [ ] open", "<ul><li>☑ done</li><li>☐ open</li></ul>"),
        ("before\n```python\na = **b**\n\nc\n```\nafter", "<p>before</p><pre>a = **b**\n\nc</pre><p>after</p>"),
        ("|a|b|\n|-|-:|\n|1|2|", '<table><thead><tr><th>a</th><th align="right">b</th></tr></thead>'
         '<tbody><tr><td>1</td><td align="right">2</td></tr></tbody></table>'),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("", ""),
    ],
)  # fmt: skip
def test_markdown_becomes_elements(text: str, html: str, ask_page: Ask) -> None:
    assert ask_page(MODULE, HTML, text) == html


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "**<script>x</script>**", "a <!-- b -->", "<b>c</b>"])
def test_html_stays_text(text: str, ask_page: Ask) -> None:
    function = """({render}, text) => {
        const place = document.createElement("div");
        place.append(render(text));
        return [place.textContent.trim(), place.querySelectorAll("img, a, script, b").length];
    }"""
    assert ask_page(MODULE, function, text) == [text.replace("**", ""), 0]


def test_a_link_opens_beside_the_page_and_is_not_vouched_for(ask_page: Ask) -> None:
    html = ask_page(MODULE, HTML, "[paper](https://example.invalid/a?b=1)")
    link = '<a href="https://example.invalid/a?b=1" rel="nofollow noopener noreferrer" target="_blank">paper</a>'
    assert html == f"<p>{link}</p>"


@pytest.mark.parametrize(
    "to", ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "/account/", "#here", "&#106;avascript:x"]
)
def test_a_link_leads_to_the_web_or_nowhere(to: str, ask_page: Ask) -> None:
    assert "href" not in ask_page(MODULE, HTML, f"[a]({to})")


@pytest.mark.parametrize("text", ["![words](https://example.invalid/a.png)", "![words](data:image/png;base64,AA)"])
def test_a_picture_is_its_words(text: str, ask_page: Ask) -> None:
    assert ask_page(MODULE, HTML, text) == "<p>words</p>"


def test_a_long_text_of_signs_takes_no_time(ask_page: Ask) -> None:
    function = """({render}) => {
        const signs = ["*", "_", "`", "**", "# ", "- ", "```\\n", "*a ", "[", "[a](", "> ", "|a", "<a ", "![", "\\\\"];
        return signs.map((sign) => {
            const start = performance.now();
            render(sign.repeat(50_000 / sign.length));
            return [sign, Math.round(performance.now() - start)];
        });
    }"""
    times: list[tuple[str, int]] = ask_page(MODULE, function)
    assert sum(took_ms for _, took_ms in times) < 5_000, times


@pytest.mark.parametrize(("text", "num"), [("# a\n" * 12_000, 12_000), ("a" + " " * 49_000 + "b", 1)])
def test_a_text_of_nothing_but_headings_or_spaces_is_drawn_at_once(text: str, num: int, ask_page: Ask) -> None:
    """Within 500 ms where as many elements are made by hand in 10 ms: a busy machine is slow at both."""
    function = """({render}, text) => {
        const timed = (work) => {
            const start = performance.now();
            work();
            return performance.now() - start;
        };
        const byHand = () => {
            for (let at = 0; at < 12_000; at += 1) document.createElement("header").append("a");
        };
        const least = (work) => Math.min(...[1, 2, 3].map(() => timed(work)));
        return [render(text).children.length, least(() => render(text)), least(byHand)];
    }"""
    found, took_ms, by_hand_ms = ask_page(MODULE, function, text)
    assert found == num
    assert took_ms < max(500, 50 * by_hand_ms)
