"""What `?` shows is what there is: every key that a script listens to stands in the list."""

from __future__ import annotations

import re

from django.conf import settings

LIST = (settings.BASE_DIR / "templates" / "components" / "_keys.html").read_text()
SIGNS = {"ArrowRight": "→", "ArrowLeft": "←", "ArrowUp": "↑", "ArrowDown": "↓", "Escape": "Esc", "-": "−"}
SIGNS |= {"PageUp": "PgUp", "PageDown": "PgDn", " ": "Space", "c": "C", "a": "A"}
SAME = {"=", "_"}  # + and - without Shift, and with it


def listed(part: str) -> set[str]:
    section = LIST[LIST.index(f'data-keys-of="{part}"') :].split("</section>")[0]
    return set(re.findall(r"<kbd>(.*?)</kbd>", section))


def script(name: str) -> str:
    return (settings.BASE_DIR / "static" / "js" / name).read_text()


def test_the_keys_of_a_chart_are_listed() -> None:
    keys = set(re.findall(r'^    "?(\w+|\W)"?: \(', script("charts/interaction/keys.js"), re.MULTILINE)) - SAME
    assert len(keys) > 10 and {SIGNS.get(key, key) for key in keys} <= listed("charts")


def test_the_keys_of_a_log_are_listed() -> None:
    text = script("logs/controls/commands.js")
    keys = set(re.findall(r'[{,]\s+"?(\w+| )"?: \[', text)) | set(re.findall(r'event\.key === "(\w+)"', text))
    assert {"n", "PageUp", " ", "c"} < keys and {SIGNS.get(key, key) for key in keys} <= listed("logs")


def test_the_keys_of_a_table_are_listed() -> None:
    text = script("grid/keys.js")
    keys = set(re.findall(r'event\.key === "([^"]+)"', text)) | set(re.findall(r"(Arrow\w+):", text))
    assert {"PageDown", " ", "x", "m"} < keys
    assert {SIGNS.get(key, key) for key in keys - {"ContextMenu"}} <= listed("grid")
