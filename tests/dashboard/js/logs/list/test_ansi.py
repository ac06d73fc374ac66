"""A line of a log as a terminal would show it."""

from __future__ import annotations

import pytest

from tests.dashboard.js.conftest import Ask

WORDS = """({words}, [text, spans]) => {
    const row = document.createElement("div");
    row.append(...words(text, spans));
    return [row.textContent, row.innerHTML];
}"""
PLAIN = "({plain}, text) => plain(text)"
STYLES = "({pieces}, text) => pieces(text).map(({text, style}) => [text, style])"


@pytest.mark.parametrize(
    ("line", "text", "html"),
    [
        ("plain", "plain", "plain"),
        ("\x1b[31mred\x1b[0m rest", "red rest", '<span class="ansi-1">red</span> rest'),
        ("\x1b[1;4;92mgo\x1b[m", "go", '<span class="is-bold is-underlined ansi-10">go</span>'),
        ("<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07", "link", "link"),
        ("\x1b[2J\x1b[1;1Hclear", "clear", "clear"),
        ("a\x00\x9f\x7fb", "ab", "ab"),
        ("🔥\u202eevil", "🔥\u202eevil", "🔥\u202eevil"),
    ],
)
def test_a_line_is_text_whatever_it_holds(line: str, text: str, html: str, ask_page: Ask) -> None:
    assert ask_page("logs/list/line.js", WORDS, [line, []]) == [text, html]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (" 10 %\r 20 %\r 30 %", " 30 %"),
        ("downloading 99 %\rdone", "doneloading 99 %"),  # what was longer stands behind what is shorter
        ("downloading 99 %\r\x1b[Kdone", "done"),
        ("downloading 99 %\r\x1b[2Kdone", "done"),
        ("abcdef\b\b\bX", "abcXef"),
        ("\b\ba", "a"),
        ("abc\x1b[1K|", "   |"),
        ("ends as Windows does\r", "ends as Windows does"),
        ("😀😀\r😀", "😀😀"),
        ("\x1b]0;a title that never ends", "0;a title that never ends"),  # no text is lost to what is cut off
        ("\x1b", ""),
        ("\x1b[", ""),
        ("a\tb", "a\tb"),
    ],
)
def test_what_writes_over_itself_is_shown_as_a_terminal_does(line: str, text: str, ask: Ask) -> None:
    assert ask("logs/list/ansi.js", PLAIN, line) == text


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("38;5;208", {"fg": 208}),
        ("38;2;1;2;3", {"fg": [1, 2, 3]}),
        ("38:2::1:2:3", {"fg": [1, 2, 3]}),
        ("38:5:9", {"fg": 9}),
        ("48;2;1;2;3;1", {"bg": [1, 2, 3], "isBold": True}),
        ("38;2;1;2;999", {}),  # no such colour
        ("38;5", {"fg": 0}),
        ("44;97", {"fg": 15, "bg": 4}),
        ("31;39;41;49", {}),
        ("2;3;7;9", {"isDim": True, "isItalic": True, "isInverse": True, "isStruck": True}),
        ("1;2;22", {"isBold": False, "isDim": False}),
        ("4;4:0", {"isUnderlined": False}),
        ("31;0", {}),
        (">4;1", {}),  # not a style
        ("999;;5", {}),
    ],
)
def test_a_style_is_read(codes: str, style: dict[str, object], ask: Ask) -> None:
    assert ask("logs/list/ansi.js", STYLES, f"\x1b[{codes}mx") == [["x", {"fg": None, "bg": None, **style}]]


def test_hits_are_marked_across_colours(ask_page: Ask) -> None:
    line = "\x1b[32mgre\x1b[0men day"
    _, html = ask_page("logs/list/line.js", WORDS, [line, [[7, 14], [16, 17]]])
    assert html == '<span class="ansi-2">gr</span><mark>e</mark><mark>en</mark> d<mark>a</mark>y'


CONTRASTS = """({look, luminance, contrast, readable, rgbOf}) => {
    const grounds = [0.86, 0.017];
    const worst = grounds.map((ground) => {
        let least = 21;
        for (let at = 16; at < 256; at += 1) {
            const shown = luminance(readable(rgbOf(at), ground));
            least = Math.min(least, contrast(shown, ground));
        }
        return least;
    });
    const {color: white} = look({fg: [255, 255, 255], bg: null});
    const pairs = [];
    for (let fg = 0; fg < 256; fg += 5) for (let bg = 0; bg < 256; bg += 3) {
        const {color, background} = look({fg, bg});
        const [one, other] = [color, background].map((css) => luminance(css.match(/\\d+/g).map(Number)));
        pairs.push(contrast(one, other));
    }
    return {worst, white, pair: Math.min(...pairs)};
}"""


def test_every_colour_can_be_read_in_both_themes(ask: Ask) -> None:
    found = ask("logs/list/paint.js", CONTRASTS)
    assert min(found["worst"]) >= 4.5
    assert found["white"] == "light-dark(rgb(102 102 102), rgb(255 255 255))", "darkened on a light ground alone"
    assert found["pair"] >= 4.5
